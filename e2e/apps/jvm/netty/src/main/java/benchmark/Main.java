package benchmark;

import io.netty.bootstrap.ServerBootstrap;
import io.netty.buffer.Unpooled;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInitializer;
import io.netty.channel.ChannelOption;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.SimpleChannelInboundHandler;
import io.netty.channel.nio.NioIoHandler;
import io.netty.channel.socket.SocketChannel;
import io.netty.channel.socket.nio.NioServerSocketChannel;
import io.netty.handler.codec.DateFormatter;
import io.netty.handler.codec.http.DefaultFullHttpResponse;
import io.netty.handler.codec.http.HttpHeaderNames;
import io.netty.handler.codec.http.HttpMethod;
import io.netty.handler.codec.http.HttpRequest;
import io.netty.handler.codec.http.HttpResponseStatus;
import io.netty.handler.codec.http.HttpServerCodec;
import io.netty.handler.codec.http.HttpServerKeepAliveHandler;
import io.netty.handler.codec.http.HttpObject;
import io.netty.handler.codec.http.HttpVersion;
import java.nio.charset.StandardCharsets;
import java.util.Date;

/** Netty, with as many event loops as it makes by itself. */
public final class Main {
  private static final byte[] WORD = "benchmark".getBytes(StandardCharsets.US_ASCII);

  private Main() {}

  public static void main(String[] arguments) throws InterruptedException {
    int port = Integer.parseInt(System.getenv().getOrDefault("PORT", "3000"));
    var acceptor = new MultiThreadIoEventLoopGroup(1, NioIoHandler.newFactory());
    var loops = new MultiThreadIoEventLoopGroup(NioIoHandler.newFactory());
    var children = new ChannelInitializer<SocketChannel>() {
      @Override
      protected void initChannel(SocketChannel channel) {
        channel.pipeline().addLast(new HttpServerCodec(), new HttpServerKeepAliveHandler(), new Answer());
      }
    };
    new ServerBootstrap()
        .group(acceptor, loops)
        .channel(NioServerSocketChannel.class)
        .option(ChannelOption.SO_BACKLOG, 1024)
        .childHandler(children)
        .bind(port)
        .sync()
        .channel()
        .closeFuture()
        .sync();
  }

  private static final class Answer extends SimpleChannelInboundHandler<HttpObject> {
    @Override
    protected void channelRead0(ChannelHandlerContext context, HttpObject part) {
      if (!(part instanceof HttpRequest request)) {
        return;
      }
      boolean known = request.method().equals(HttpMethod.GET) && request.uri().equals("/benchmark");
      var response = new DefaultFullHttpResponse(
          HttpVersion.HTTP_1_1,
          known ? HttpResponseStatus.OK : HttpResponseStatus.NOT_FOUND,
          known ? Unpooled.wrappedBuffer(WORD) : Unpooled.EMPTY_BUFFER);
      response.headers()
          .set(HttpHeaderNames.DATE, DateFormatter.format(new Date()))
          .set(HttpHeaderNames.SERVER, "netty")
          .set(HttpHeaderNames.CONTENT_TYPE, "text/plain")
          .setInt(HttpHeaderNames.CONTENT_LENGTH, response.content().readableBytes());
      context.write(response);
    }

    @Override
    public void channelReadComplete(ChannelHandlerContext context) {
      context.flush();
    }
  }
}
