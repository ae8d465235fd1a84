//! The node port: another port of this machine that leads to the app's, as a node's does.

use std::net::{Ipv4Addr, SocketAddrV4};

use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
};

/// Listens on `from` and leads each connection to `to`, until the task is dropped.
pub(crate) async fn listen(from: u16, to: u16) -> std::io::Result<impl Future<Output = ()>> {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, from)).await?;
    Ok(async move {
        loop {
            match listener.accept().await {
                Ok((client, _)) => drop(tokio::spawn(lead(client, to))),
                // Out of file descriptors, say: they come back as connections end.
                Err(_) => tokio::time::sleep(std::time::Duration::from_millis(100)).await,
            }
        }
    })
}

async fn lead(mut client: TcpStream, to: u16) {
    // A client whose connection leads nowhere sees it closed.
    let Ok(mut server) = TcpStream::connect(SocketAddrV4::new(Ipv4Addr::LOCALHOST, to)).await else { return };
    let _ = client.set_nodelay(true);
    let _ = server.set_nodelay(true);
    let _ = copy_bidirectional(&mut client, &mut server).await;
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn bytes_go_both_ways() {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let to = server.local_addr().unwrap().port();
        let from = crate::local::program::free_port(0).unwrap();
        tokio::spawn(listen(from, to).await.unwrap());
        let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, from)).await.unwrap();
        let (mut accepted, _) = server.accept().await.unwrap();
        client.write_all(b"ask").await.unwrap();
        let mut heard = [0; 3];
        accepted.read_exact(&mut heard).await.unwrap();
        accepted.write_all(b"answer").await.unwrap();
        drop(accepted);
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert_eq!((&heard, answer.as_str()), (b"ask", "answer"));
    }
}
