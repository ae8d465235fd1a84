//! The program, a server for it to run, and a place with a manifest.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "helpers of tests; each uses some of them"
)]

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::Once,
    time::{Duration, Instant},
};

/// How long anything may take before a test gives up on it.
pub const PATIENCE: Duration = Duration::from_mins(2);

pub fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-workerapp"));
    command.env_remove("KUBECONFIG").env("HOME", "/nonexistent").stdin(Stdio::null());
    command
}

pub fn said(arguments: &[&str]) -> Output {
    program().args(arguments).output().unwrap()
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The supervisor, built beside the program: another package's program is not built for these tests.
pub fn supervisor() -> PathBuf {
    static BUILT: Once = Once::new();
    let path = Path::new(env!("CARGO_BIN_EXE_kubectl-workerapp")).with_file_name("workerapp-supervisor");
    BUILT.call_once(|| {
        let mut cargo = Command::new(env!("CARGO"));
        let built = cargo
            .args(["build", "--quiet", "--locked", "--package", "workerapp-supervisor"])
            .status()
            .unwrap();
        assert!(built.success() && path.is_file(), "no {}", path.display());
    });
    path
}

pub fn free_port() -> u16 {
    TcpListener::bind("0.0.0.0:0").unwrap().local_addr().unwrap().port()
}

/// A folder of a test's own, removed at the end.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("workerapp-cli-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Writes a file and answers its path.
    pub fn file(&self, name: &str, content: &str) -> String {
        let path = self.0.join(name);
        fs::write(&path, content).unwrap();
        path.to_string_lossy().into_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A server that says which worker it is, what it was given, takes a while for `/slow`, and ends in order when asked to.
pub const SERVER: &str = r"
import http.server, os, signal, socketserver, threading, time
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == '/slow':
            print('slow begins', flush=True)
            time.sleep(1)
        if self.path == '/exit':
            os._exit(7)
        body = ' '.join(f'{name}={os.environ.get(name)}' for name in ('WORKERS', 'WORKER_ID', 'PORT', 'SECRET', 'GREETING')).encode()
        self.send_response(200)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass
class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = False
server = Server((os.environ['HOSTNAME'], int(os.environ['PORT'])), Handler)
signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
server.serve_forever()
server.server_close()
";

/// The program in the foreground, and what it says.
pub struct Running {
    child: Child,
    pub said: PathBuf,
    _folder: Folder,
}

impl Running {
    pub fn start(command: &mut Command, name: &str) -> Self {
        let folder = Folder::new(name);
        let said = folder.0.join("said");
        let log = fs::File::create(&said).unwrap();
        let child = command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        Self { child, said, _folder: folder }
    }

    pub fn text(&self) -> String {
        fs::read_to_string(&self.said).unwrap()
    }

    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &pid]).status().unwrap().success());
    }

    /// Its exit status.
    pub fn ended(&mut self) -> i32 {
        let begin = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code().unwrap_or(-1);
            }
            assert!(begin.elapsed() < PATIENCE, "it doesn't end: {}", self.text());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn until(&mut self, what: &str, wanted: impl Fn(&str) -> bool) {
        let begin = Instant::now();
        while !wanted(&self.text()) {
            assert!(self.child.try_wait().unwrap().is_none(), "it ended before {what}: {}", self.text());
            assert!(begin.elapsed() < PATIENCE, "waited for {what}: {}", self.text());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The supervisor has a process group of its own: it is asked, and not left behind.
        if self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            self.signal("TERM");
            let begin = Instant::now();
            while self.child.try_wait().is_ok_and(|ended| ended.is_none()) && begin.elapsed() < PATIENCE {
                std::thread::sleep(Duration::from_millis(20));
            }
            let _ = self.child.kill();
        }
    }
}

/// The body of an answer; nothing while nobody answers.
pub fn get(port: u16, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    head.contains(" 200 ").then(|| body.to_owned())
}

pub fn until_answer(port: u16) -> String {
    let begin = Instant::now();
    loop {
        if let Some(body) = get(port, "/") {
            return body;
        }
        assert!(begin.elapsed() < PATIENCE, "nobody answers on port {port}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A server for `bench`, in a thread: answers every request, until the test ends.
pub fn answering() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut writer = stream.try_clone().unwrap();
                let mut lines = BufReader::new(stream).lines();
                while let Some(Ok(line)) = lines.next() {
                    if line.is_empty()
                        && writer.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").is_err()
                    {
                        return;
                    }
                }
            });
        }
    });
    port
}
