package benchmark;

import io.vertx.core.DeploymentOptions;
import io.vertx.core.Future;
import io.vertx.core.Vertx;
import io.vertx.core.VerticleBase;
import io.vertx.core.http.HttpMethod;
import io.vertx.core.http.HttpServerRequest;
import java.time.ZoneOffset;
import java.time.ZonedDateTime;
import java.time.format.DateTimeFormatter;

/** Vert.x, a verticle for each processor: one alone would use one event loop. */
public final class Main extends VerticleBase {
  private static final int PORT = Integer.parseInt(System.getenv().getOrDefault("PORT", "3000"));

  public static void main(String[] arguments) {
    int processors = Runtime.getRuntime().availableProcessors();
    Vertx.vertx()
        .deployVerticle(Main::new, new DeploymentOptions().setInstances(processors))
        .onFailure(error -> {
          System.err.println(error.getMessage());
          System.exit(1);
        });
  }

  @Override
  public Future<?> start() {
    return vertx.createHttpServer().requestHandler(Main::answer).listen(PORT, "0.0.0.0");
  }

  private static void answer(HttpServerRequest request) {
    var response = request.response();
    if (!request.method().equals(HttpMethod.GET) || !request.path().equals("/benchmark")) {
      response.setStatusCode(404).end();
      return;
    }
    response
        .putHeader("Date", DateTimeFormatter.RFC_1123_DATE_TIME.format(ZonedDateTime.now(ZoneOffset.UTC)))
        .putHeader("Server", "vertx")
        .putHeader("Content-Type", "text/plain")
        .end("benchmark");
  }
}
