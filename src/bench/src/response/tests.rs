use super::*;

/// What a connection would see: the answer, or that it isn't complete before the server closes.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    /// Status, may be used again, bytes of the body, worker.
    Answer(u16, bool, u64, String),
    Malformed(Malformed),
    ClosedEarly,
}

fn read(pieces: &[&[u8]], head: bool) -> Seen {
    let mut decoder = Decoder::default();
    decoder.expect(head);
    let mut complete = None;
    for piece in pieces {
        if complete.is_some() && !piece.is_empty() {
            return Seen::Malformed(Malformed::Surplus);
        }
        match decoder.feed(piece, Some("x-worker")) {
            Ok(found) => complete = complete.or(found),
            Err(malformed) => return Seen::Malformed(malformed),
        }
    }
    match complete.or_else(|| decoder.end()) {
        Some(answer) => {
            let worker = String::from_utf8_lossy(decoder.worker()).into_owned();
            Seen::Answer(answer.status, answer.keep_alive, answer.body, worker)
        }
        None => Seen::ClosedEarly,
    }
}

/// In one piece, in two at every place, and byte by byte: always the same.
fn check(text: &[u8], head: bool, wanted: &Seen) {
    let shown = String::from_utf8_lossy(text.get(..text.len().min(300)).unwrap()).into_owned();
    assert_eq!(read(&[text], head), *wanted, "{shown:?}");
    for at in 0..=text.len().min(2000) {
        let (a, b) = text.split_at(at);
        assert_eq!(read(&[a, b], head), *wanted, "{shown:?} split at {at}");
    }
    let bytes: Vec<&[u8]> = text.chunks(1).collect();
    assert_eq!(read(&bytes, head), *wanted, "{shown:?} byte by byte");
}

fn answer(status: u16, keep_alive: bool, body: u64) -> Seen {
    Seen::Answer(status, keep_alive, body, String::new())
}

#[test]
fn answers_of_every_framing() {
    for (text, wanted) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", answer(200, true, 5)),
        ("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", answer(200, true, 0)),
        ("HTTP/1.1 200 \r\nContent-Length: 2\r\n\r\nok", answer(200, true, 2)),
        ("HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok", answer(200, true, 2)),
        ("HTTP/1.1 500 No\r\nContent-Length: 2\r\nConnection: Close\r\n\r\nno", answer(500, false, 2)),
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: x, close\r\n\r\nok", answer(200, false, 2)),
        ("HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", answer(200, false, 2)),
        ("HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 2\r\n\r\nok", answer(200, true, 2)),
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok", answer(200, true, 2)),
        ("HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nok", answer(200, true, 2)),
        ("HTTP/1.1 204 No Content\r\n\r\n", answer(204, true, 0)),
        ("HTTP/1.1 204 No Content\r\nContent-Length: 7\r\n\r\n", answer(204, true, 0)),
        ("HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n", answer(304, true, 0)),
        ("HTTP/1.1 200 OK\r\n\r\nuntil the end", answer(200, false, 13)),
        ("HTTP/1.1 200 OK\r\n\r\n", answer(200, false, 0)),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nabc", answer(200, false, 3)),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
            answer(200, true, 5),
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, Chunked\r\n\r\nA;x=\"y\"\r\n0123456789\r\n00\r\n\r\n",
            answer(200, true, 10),
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1 \r\na\r\n2\r\nbc\r\n0\r\nTrailer: x\r\nAnother: y\r\n\r\n",
            answer(200, true, 3),
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n1\r\na\r\n0\r\n\r\n",
            answer(200, false, 1),
        ),
        (
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
            answer(200, true, 1),
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nX-WORKER: 17\r\n\r\nx",
            Seen::Answer(200, true, 1, "17".into()),
        ),
        (
            "HTTP/1.1 103 Hints\r\nX-Worker: no\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
            answer(200, true, 1),
        ),
    ] {
        check(text.as_bytes(), false, &wanted);
    }
}

#[test]
fn an_answer_to_head_has_no_body() {
    check(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n", true, &answer(200, true, 0));
    check(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", true, &answer(200, true, 0));
    check(b"HTTP/1.1 200 OK\r\n\r\n", true, &answer(200, true, 0));
    let surplus = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    check(surplus, true, &Seen::Malformed(Malformed::Surplus));
}

#[test]
fn answers_that_break_the_rules() {
    let chunked = |rest: &str| format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{rest}");
    let length = |value: &str| format!("HTTP/1.1 200 OK\r\nContent-Length: {value}\r\n\r\n");
    for (text, wanted) in [
        (length("-1"), Malformed::ContentLength),
        (length("+1"), Malformed::ContentLength),
        (length("1 2"), Malformed::ContentLength),
        (length("0x10"), Malformed::ContentLength),
        (length(""), Malformed::ContentLength),
        (length("1,2"), Malformed::ContentLength),
        (length("18446744073709551616"), Malformed::ContentLength),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n".into(),
            Malformed::ContentLength,
        ),
        ("HTTP/1.1 101 Switching\r\n\r\n".into(), Malformed::Switch),
        ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxy".into(), Malformed::Surplus),
        ("HTTP/1.1 204 No Content\r\n\r\nbody".into(), Malformed::Surplus),
        (chunked("x\r\n"), Malformed::ChunkSize),
        (chunked("\r\n"), Malformed::ChunkSize),
        (chunked("-1\r\n"), Malformed::ChunkSize),
        (chunked("5\nhello"), Malformed::ChunkSize),
        (chunked("5\rhello"), Malformed::ChunkSize),
        (chunked("11111111111111111\r\n"), Malformed::ChunkSize),
        (chunked("2\r\nabc\r\n"), Malformed::ChunkEnd),
        (chunked("2\r\nab\n"), Malformed::ChunkEnd),
        (chunked("2\r\nab\r\r"), Malformed::ChunkEnd),
        (chunked("0\r\n\r\nmore"), Malformed::Surplus),
        ("HTTP/1.1 099 Low\r\n\r\n".into(), Malformed::Head("its status is below 100")),
        ("HTTP/1.1 2000 OK\r\n\r\n".into(), Malformed::Head("its status isn't a number of three digits")),
        ("HTTP/2 200\r\n\r\n".into(), Malformed::Head("it doesn't begin with HTTP/1.0 or HTTP/1.1")),
        ("SSH-2.0-server\r\n".into(), Malformed::Head("it doesn't begin with HTTP/1.0 or HTTP/1.1")),
        ("HTTP/1.1 200 OK\r\nbad header: x\r\n\r\n".into(), Malformed::Head("a header's name isn't one")),
        ("HTTP/1.1 100 Continue\r\n\r\n".repeat(17), Malformed::TooManyInterim),
    ] {
        check(text.as_bytes(), false, &Seen::Malformed(wanted));
    }
}

#[test]
fn what_ends_before_its_end_was_closed_early() {
    let whole = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nA: b\r\n\r\n";
    for at in 0..whole.len() {
        assert_eq!(read(&[whole.get(..at).unwrap()], false), Seen::ClosedEarly, "cut at {at}");
    }
    assert_eq!(read(&[whole], false), answer(200, true, 3));
    assert_eq!(read(&[b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello"], false), Seen::ClosedEarly);
}

#[test]
fn endless_heads_extensions_and_trailers_have_an_end() {
    let mut text = b"HTTP/1.1 200 OK\r\nA: ".to_vec();
    text.resize(MAX_HEAD + 100, b'x');
    assert_eq!(read(&[&text], false), Seen::Malformed(Malformed::HeadTooLong));
    let pieces: Vec<&[u8]> = text.chunks(1000).collect();
    assert_eq!(read(&pieces, false), Seen::Malformed(Malformed::HeadTooLong));
    text.extend_from_slice(b"\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(read(&[&text], false), Seen::Malformed(Malformed::HeadTooLong));

    let headers = |n| format!("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n{}\r\n", "A: b\r\n".repeat(n - 1));
    check(headers(MAX_HEADERS).as_bytes(), false, &answer(200, true, 0));
    check(headers(MAX_HEADERS + 1).as_bytes(), false, &Seen::Malformed(Malformed::TooManyHeaders));

    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let extension = format!("{chunked}1;{}", "x".repeat(5000));
    assert_eq!(read(&[extension.as_bytes()], false), Seen::Malformed(Malformed::ChunkSize));
    let trailers = format!("{chunked}0\r\n{}", "A: b\r\n".repeat(MAX_HEAD / 2));
    assert_eq!(read(&[trailers.as_bytes()], false), Seen::Malformed(Malformed::TrailersTooLong));
}

#[test]
fn a_decoder_is_used_for_one_answer_after_another() {
    let mut decoder = Decoder::default();
    for _ in 0..3 {
        decoder.expect(false);
        assert!(!decoder.begun());
        assert_eq!(decoder.feed(b"HTTP/1.1 200 OK\r\nX-Worker: a\r\nContent-Le", Some("X-Worker")), Ok(None));
        assert!(decoder.begun() && decoder.end().is_none());
        let found = decoder.feed(b"ngth: 3\r\n\r\nabc", Some("X-Worker")).unwrap().unwrap();
        assert_eq!((found.status, found.body, decoder.worker()), (200, 3, b"a".as_slice()));
        decoder.expect(false);
        let found = decoder.feed(b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n", None).unwrap().unwrap();
        assert_eq!((found.status, found.body, decoder.worker()), (404, 0, b"".as_slice()));
    }
}

/// Any bytes at all: never a panic, and whether it is an answer, and which, doesn't depend on the pieces.
#[test]
fn noise_is_read_alike_in_any_pieces() {
    let mut random = fastrand::Rng::with_seed(7);
    let seeds: [&[u8]; 2] = [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n10;q\r\n0123456789abcdef\r\n0\r\nA: b\r\n\r\n",
        b"HTTP/1.1 103 Hints\r\n\r\nHTTP/1.0 404 No\r\nConnection: keep-alive\r\nContent-Length: 12\r\n\r\nabcdefghijkl",
    ];
    let as_answer =
        |pieces: &[&[u8]]| Some(read(pieces, false)).filter(|seen| matches!(seen, Seen::Answer(..)));
    for round in 0..4000 {
        let mut text = seeds[round % 2].to_vec();
        for _ in 0..random.usize(1..4) {
            let at = random.usize(..text.len().max(1));
            text.resize(text.len().max(at + 1), b'x');
            match random.u8(..4) {
                0 => text[at] = random.u8(..),
                1 => drop(text.remove(at)),
                2 => text.insert(at, random.u8(..)),
                _ => text.truncate(at.max(1)),
            }
        }
        let whole = as_answer(&[&text]);
        let (a, b) = text.split_at(random.usize(..=text.len()));
        assert_eq!(as_answer(&[a, b]), whole, "{:?}", String::from_utf8_lossy(&text));
        let bytes: Vec<&[u8]> = text.chunks(1).collect();
        assert_eq!(as_answer(&bytes), whole, "{:?}", String::from_utf8_lossy(&text));
    }
}
