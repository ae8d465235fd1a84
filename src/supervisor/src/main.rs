//! The binary; everything is in the library.

fn main() {
    // Not `ExitCode`: the code must get through even if something is still running.
    std::process::exit(workerapp_supervisor::run(std::env::args_os().skip(1)));
}
