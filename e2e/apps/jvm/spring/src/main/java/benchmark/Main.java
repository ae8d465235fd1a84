package benchmark;

import java.time.ZoneOffset;
import java.time.ZonedDateTime;
import java.time.format.DateTimeFormatter;
import java.util.Map;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.http.MediaType;
import org.springframework.http.ResponseEntity;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RestController;
import reactor.core.publisher.Mono;

/** Spring WebFlux on the server that its starter brings: Reactor Netty. */
@SpringBootApplication
@RestController
public class Main {
  public static void main(String[] arguments) {
    var application = new SpringApplication(Main.class);
    application.setDefaultProperties(Map.of("server.port", System.getenv().getOrDefault("PORT", "3000")));
    application.run(arguments);
  }

  @GetMapping("/benchmark")
  public Mono<ResponseEntity<String>> benchmark() {
    var answer = ResponseEntity.ok()
        .header("Date", DateTimeFormatter.RFC_1123_DATE_TIME.format(ZonedDateTime.now(ZoneOffset.UTC)))
        .header("Server", "spring")
        .contentType(MediaType.TEXT_PLAIN)
        .body("benchmark");
    return Mono.just(answer);
  }
}
