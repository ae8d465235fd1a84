//! Several workers of an unmodified program on one port.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod common;

use common::{Directory, Setup, Signal, app, free_port, get, is_root, wait_for};
use std::net::{Ipv6Addr, SocketAddr, TcpStream};
use std::process::Command;

fn python(test: &str) -> Setup {
    Setup::new(&["python3", &app("binds.py"), test])
}

#[test]
fn unmodified_node_servers_share_a_port() {
    let supervisor = Setup::new(&["node", &app("server.js")]).workers(3).ready();
    let pids: Vec<String> = supervisor.worker_pids().iter().map(ToString::to_string).collect();
    assert_eq!(supervisor.wait_answers(3), pids.into_iter().collect());
    assert!(supervisor.status().contains(r#""sharing":{"mode":"slots","detail":null}"#));
    assert!((supervisor.metric("workerapp_sharing_mode{mode=\"slots\"}") - 1.0).abs() < 0.1);
}

#[test]
fn a_blocking_python_server() {
    let port = free_port().to_string();
    let mut setup =
        Setup::new(&["python3", "-u", "-m", "http.server", &port]).directory(&std::env::temp_dir());
    setup.port = port.parse().unwrap();
    let supervisor = setup.workers(2).ready();
    for _ in 0..50 {
        assert!(supervisor.get("/").is_some());
    }
}

#[test]
fn a_static_go_server() {
    let directory = Directory::new("go");
    let binary = directory.0.join("server").to_str().unwrap().to_owned();
    let build = Command::new("go")
        .args(["build", "-o", &binary, "."])
        .current_dir(app("goserver"))
        .env("CGO_ENABLED", "0")
        .output()
        .unwrap();
    assert!(build.status.success(), "{}", String::from_utf8_lossy(&build.stderr));
    Setup::new(&[&binary]).workers(3).ready().wait_answers(3);
}

#[test]
fn a_java_server() {
    Setup::new(&["java", "-XX:TieredStopAtLevel=1", &app("Server.java")]).workers(2).ready().wait_answers(2);
}

/// pm2#5712: `npm start` in several workers.
#[test]
fn pm2_5712_npm_start_in_several_workers() {
    let directory = Directory::new("npm");
    directory.file("package.json", r#"{"name":"x","version":"1.0.0","scripts":{"start":"node server.js"}}"#);
    std::fs::copy(app("server.js"), directory.0.join("server.js")).unwrap();
    Setup::new(&["npm", "start"]).directory(&directory.0).workers(2).ready().wait_answers(2);
}

#[test]
fn a_server_behind_shells() {
    let script = format!("export X=1; sh -c 'node {}; true'; true", app("server.js"));
    Setup::new(&["sh", "-c", &script]).workers(2).ready().wait_answers(2);
}

#[test]
fn the_apps_own_workers_inherit_the_slot() {
    let setup = Setup::new(&["node", &app("cluster.js")]).workers(3).flags(&["--processes", "1"]);
    let supervisor = setup.ready();
    supervisor.wait_answers(3);
    assert_eq!(supervisor.worker_pids().len(), 1);
}

#[test]
fn a_command_that_shares_by_itself_is_left_alone() {
    let setup = Setup::new(&["node", &app("cluster.js")]).workers(2).flags(&[
        "--processes",
        "1",
        "--sharing",
        "none",
    ]);
    let supervisor = setup.ready();
    supervisor.wait_answers(2);
    assert!(supervisor.status().contains(r#""mode":"none""#));
}

fn answers(supervisor: &common::Supervisor) -> (bool, bool) {
    let v6 = SocketAddr::from((Ipv6Addr::LOCALHOST, supervisor.port));
    (supervisor.get("/").is_some(), get(v6, "/").is_some())
}

#[test]
fn every_combination_of_address_families() {
    for (host, v6_only, expected) in [
        ("", "0", (true, true)),
        ("::", "0", (true, true)),
        ("0.0.0.0", "0", (true, false)),
        ("::", "1", (false, true)),
    ] {
        let setup = Setup::new(&["node", &app("server.js")]).workers(2).env("V6ONLY", v6_only);
        let setup = if host.is_empty() { setup } else { setup.env("HOST", host) };
        assert_eq!(answers(&setup.ready()), expected, "{host:?} {v6_only}");
    }
}

#[test]
fn one_socket_for_each_family() {
    let supervisor = python("both").workers(2).ready();
    let v6 = SocketAddr::from((Ipv6Addr::LOCALHOST, supervisor.port));
    for _ in 0..10 {
        assert!(supervisor.get("/").unwrap().ends_with(" four"));
        assert!(get(v6, "/").unwrap().1.ends_with(" six"));
    }
}

#[test]
fn binding_twice_is_refused_as_the_program_expects() {
    let eaddrinuse = format!("errno {}", 98);
    let supervisor = python("twice").workers(2).ready();
    for answer in supervisor.wait_answers(2) {
        assert!(answer.ends_with(&eaddrinuse), "{answer}");
    }
    let einval = format!("errno {}", 22);
    let answer = python("rebind").workers(1).ready().get("/").unwrap();
    assert!(answer.ends_with(&einval), "{answer}");
}

/// gunicorn asks the socket whether it listens, and a slot that had a worker before does.
#[test]
fn a_successor_that_finds_its_socket_listening() {
    let supervisor = python("looks").workers(2).ready();
    let before = supervisor.worker_pids();
    common::kill(before[0], common::Signal::KILL);
    let successor = wait_for("a successor that is ready", || {
        let pids = supervisor.worker_pids();
        let ready = supervisor.status().matches("\"state\":\"listening\"").count() == 2;
        (ready && pids.len() == 2 && pids[0] != before[0]).then(|| pids[0])
    });
    let answer = format!("{successor} 1");
    wait_for("its answer", || supervisor.get("/").filter(|text| *text == answer));
}

#[test]
fn closing_and_binding_again_works() {
    let supervisor = python("again").workers(2).ready();
    for _ in 0..20 {
        assert!(supervisor.get("/").unwrap().ends_with("again"));
    }
}

#[test]
fn udp_on_the_same_number_is_left_alone() {
    let supervisor = python("udp").workers(2).ready();
    assert!(supervisor.wait_answers(2).iter().all(|answer| answer.ends_with("udp True")));
}

#[test]
fn other_ports_are_left_alone() {
    let other = free_port();
    let supervisor = python("others").env("OTHER", &other.to_string()).workers(2).ready();
    let answers = supervisor.wait_answers(2);
    for worker in 0..2 {
        assert!(
            answers.iter().any(|answer| answer.ends_with(&format!("True {}", other + worker))),
            "{answers:?}"
        );
    }
}

#[test]
fn flags_of_the_programs_socket_are_kept() {
    for (inherit, blocking, expected) in [
        ("0", "1", "cloexec=True nonblock=False"),
        ("1", "1", "cloexec=False nonblock=False"),
        ("0", "0", "cloexec=True nonblock=True"),
    ] {
        let supervisor = python("flags").env("INHERIT", inherit).env("BLOCKING", blocking).workers(1).ready();
        assert!(supervisor.get("/").unwrap().ends_with(expected), "{expected}");
    }
}

/// Netty's native transport, which Spring `WebFlux` takes by itself.
#[test]
fn a_program_that_waits_on_its_socket_before_it_binds_it_keeps_the_port_to_itself() {
    let supervisor = python("waits").workers(1).ready();
    supervisor.wait_answers(1);
    supervisor.wait_output("no other worker and no successor can share it");

    let old = supervisor.worker_pids();
    supervisor.signal(Signal::HUP);
    wait_for("the end of the rolling restart", || {
        supervisor.output().contains("every worker that was due is replaced").then_some(())
    });
    assert_ne!(supervisor.worker_pids(), old);
    supervisor.wait_answers(1);
}

/// Containers do not have this capability, and with it nothing would be shown here.
const WITHOUT_PTRACE: &[&str] = &["setpriv", "--bounding-set", "-sys_ptrace", "--inh-caps", "-sys_ptrace"];

#[test]
fn a_program_that_is_started_as_another_user() {
    if !is_root() {
        eprintln!("not root: there is nothing to give up");
        return;
    }
    // The other user has to be able to read the script.
    let directory = Directory::new("execs");
    let script = directory.file("binds.py", &std::fs::read_to_string(app("binds.py")).unwrap());
    let supervisor = Setup::new(&["python3", &script, "execs"]).workers(2).wrapper(WITHOUT_PTRACE).ready();
    assert!(supervisor.wait_answers(2).iter().all(|answer| answer.ends_with("uid 65534")));
}

#[test]
fn a_program_that_gives_up_root_before_it_binds_can_have_one_worker() {
    if !is_root() {
        eprintln!("not root: there is nothing to give up");
        return;
    }
    let supervisor = python("drops").workers(1).wrapper(WITHOUT_PTRACE).ready();
    assert!(supervisor.get("/").unwrap().ends_with("uid 65534"));
    supervisor.wait_output("let the container run as that user (securityContext.runAsUser)");
}

#[test]
fn without_any_privilege() {
    let wrapper: &[&str] = if is_root() {
        let nobody = ["--reuid", "65534", "--regid", "65534", "--clear-groups"];
        &[&["setpriv", "--no-new-privs", "--bounding-set", "-all"], &nobody[..]].concat()
    } else {
        &["setpriv", "--no-new-privs"]
    };
    // The user nobody may not look into the directory of this checkout.
    let directory = Directory::new("nobody");
    let script = directory.file("server.js", &std::fs::read_to_string(app("server.js")).unwrap());
    let binary = directory.0.join("supervisor");
    std::fs::copy(common::BINARY, &binary).unwrap();
    let setup = Setup::new(&["node", &script]).workers(2).directory(&directory.0);
    let words = [wrapper, &["sh", "-c", "shift; exec \"$0\" \"$@\"", binary.to_str().unwrap()]].concat();
    setup.wrapper(&words).ready().wait_answers(2);
}

/// A probe that connects must not succeed before the app is there to serve.
#[test]
fn nothing_listens_before_the_app_does() {
    let script = format!("sleep 1; exec node {}", app("server.js"));
    let mut supervisor = Setup::new(&["sh", "-c", &script]).workers(2).start();
    wait_for("the admin port", || supervisor.readyz());
    assert!(TcpStream::connect(("127.0.0.1", supervisor.port)).is_err());
    let (status, text) = supervisor.readyz().unwrap();
    assert!(status == 503 && text.contains("worker 1 has not listened yet (0 s)"), "{status} {text}");
    supervisor.wait_ready();
}

/// gvisor#14627: a refused seccomp listener. A supervisor below a supervisor is refused, too: there can be only one.
#[test]
fn gvisor_14627_without_seccomp_one_worker_serves_and_the_cause_is_told() {
    let inner_admin = free_port().to_string();
    let setup = Setup::new(&[]);
    let port = setup.port.to_string();
    let command = [common::BINARY, "--workers", "3", "--port", &port, "--admin-port", &inner_admin];
    let script = app("server.js");
    let command = [&command[..], &["--lame-duck", "0", "--", "node", &script]].concat();
    let mut setup = Setup::new(&command).env("PORT", &port);
    setup.port = port.parse().unwrap();
    let supervisor = setup.workers(1).flags(&["--sharing", "none"]).ready();
    let inner = SocketAddr::from(([127, 0, 0, 1], inner_admin.parse::<u16>().unwrap()));
    wait_for("the inner supervisor to be ready", || {
        get(inner, "/readyz").filter(|(status, _)| *status == 200)
    });
    assert!(supervisor.get("/").is_some());
    let (_, status) = get(inner, "/status").unwrap();
    assert!(
        status.contains(r#""sharing":{"mode":"single","detail":"a seccomp listener is refused (EBUSY;"#),
        "{status}"
    );
    assert_eq!(status.matches("\"pid\"").count(), 1);
    let (_, metrics) = get(inner, "/metrics").unwrap();
    assert!(metrics.contains("workerapp_sharing_mode{mode=\"single\"} 1"));
    let log = supervisor.wait_output("the port cannot be shared, so one worker runs");
    assert_eq!(log.matches("the port cannot be shared, so one worker runs").count(), 1, "{log}");
}

/// socket.io#1982: polling transport meets another worker each time.
#[test]
fn socketio_1982_affinity_keeps_a_client_on_its_worker() {
    let supervisor =
        Setup::new(&["node", &app("server.js")]).workers(3).flags(&["--affinity", "ClientIP"]).ready();
    let v6 = SocketAddr::from((Ipv6Addr::LOCALHOST, supervisor.port));
    let (first, first_v6) = (supervisor.get("/"), get(v6, "/"));
    for _ in 0..30 {
        assert_eq!((supervisor.get("/"), get(v6, "/")), (first.clone(), first_v6.clone()));
    }
    // The whole of 127/8 is this machine: many clients.
    let mut seen = std::collections::BTreeSet::new();
    for last in 1..=60 {
        let client = common::Client { address: [127, 0, 0, last] };
        let answer = client.get(supervisor.port).unwrap();
        assert_eq!(client.get(supervisor.port), Some(answer.clone()));
        seen.insert(answer);
    }
    assert_eq!(seen.len(), 3);
}
