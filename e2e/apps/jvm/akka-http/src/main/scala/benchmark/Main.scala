package benchmark

import akka.actor.ActorSystem
import akka.http.scaladsl.Http
import akka.http.scaladsl.server.Directives._
import akka.stream.ActorMaterializer

/** akka-http's routing; Date and Server are its own. */
object Main extends App {
  implicit val system: ActorSystem = ActorSystem("benchmark")
  implicit val materializer: ActorMaterializer = ActorMaterializer()

  val route = path("benchmark")(get(complete("benchmark")))
  Http().bindAndHandle(route, "0.0.0.0", sys.env.getOrElse("PORT", "3000").toInt)
}
