import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;

/** The server that every JDK has in it. */
public final class Server {
    public static void main(String[] args) throws Exception {
        byte[] pid = Long.toString(ProcessHandle.current().pid()).getBytes();
        HttpServer server = HttpServer.create(new InetSocketAddress(Integer.parseInt(System.getenv("PORT"))), 0);
        server.createContext("/", exchange -> {
            exchange.sendResponseHeaders(200, pid.length);
            exchange.getResponseBody().write(pid);
            exchange.close();
        });
        server.start();
    }
}
