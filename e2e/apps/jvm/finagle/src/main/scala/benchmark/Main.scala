package benchmark

import com.twitter.finagle.http.{Method, Request, Response, Status}
import com.twitter.finagle.{Http, Service}
import com.twitter.util.{Await, Future}
import java.time.format.DateTimeFormatter.RFC_1123_DATE_TIME
import java.time.{ZoneOffset, ZonedDateTime}

/** finagle's own server. */
object Main extends App {
  private val service = Service.mk[Request, Response] { request =>
    val response = Response(Status.Ok)
    if (request.method == Method.Get && request.path == "/benchmark") {
      response.date = RFC_1123_DATE_TIME.format(ZonedDateTime.now(ZoneOffset.UTC))
      response.server = "finagle"
      response.contentType = "text/plain"
      response.contentString = "benchmark"
    } else response.status = Status.NotFound
    Future.value(response)
  }
  Await.ready(Http.server.serve(":" + sys.env.getOrElse("PORT", "3000"), service))
}
