# The answer names the process.
app { |_env| [200, { "Content-Type" => "text/plain" }, [Process.pid.to_s]] }
bind "tcp://0.0.0.0:#{ENV.fetch('PORT')}"
threads 1, 4
