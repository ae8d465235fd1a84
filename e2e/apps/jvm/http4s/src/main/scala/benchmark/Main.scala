package benchmark

import cats.effect.{ExitCode, IO, IOApp}
import org.http4s.blaze.server.BlazeServerBuilder
import org.http4s.headers.Server
import org.http4s.{HttpRoutes, Method, ProductId, Response, Uri}

/** http4s on blaze, which sets Date by itself. */
object Main extends IOApp {
  private val path = Uri.Path.unsafeFromString("/benchmark")

  private val routes = HttpRoutes.of[IO] {
    case request if request.method == Method.GET && request.pathInfo == path =>
      IO.pure(Response[IO]().withEntity("benchmark").putHeaders(Server(ProductId("http4s"))))
  }

  override def run(arguments: List[String]): IO[ExitCode] =
    BlazeServerBuilder[IO]
      .bindHttp(sys.env.getOrElse("PORT", "3000").toInt, "0.0.0.0")
      .withHttpApp(routes.orNotFound)
      .serve
      .compile
      .drain
      .as(ExitCode.Success)
}
