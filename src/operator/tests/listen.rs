//! Where the probes and metrics answer.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::net::TcpStream;
use workerapp_operator::http::bind;

#[tokio::test]
async fn restate_operator_93_one_socket_answers_on_ipv4_and_ipv6() {
    let listener = bind(SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0))).await.unwrap();
    let address = listener.local_addr().unwrap();
    TcpStream::connect((Ipv4Addr::LOCALHOST, address.port())).await.unwrap();
    // A machine without IPv6 has 0.0.0.0 instead.
    if address.is_ipv6() && TcpStream::connect((Ipv6Addr::LOCALHOST, address.port())).await.is_err() {
        let loopback = std::net::UdpSocket::bind((Ipv6Addr::LOCALHOST, 0));
        assert!(loopback.is_err(), "[::1] is there and doesn't answer");
    }
}

#[tokio::test]
async fn a_port_that_is_taken_is_an_error() {
    let listener = bind(SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0))).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    assert!(bind(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port))).await.is_err());
}
