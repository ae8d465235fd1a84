/*
 * First process of a pod's sandbox, and of each machine of the testbed: it keeps the namespaces alive, takes over
 * orphans and collects them when they end, and stops at once when asked to.
 */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void stop(int signal)
{
    (void)signal;
    _exit(0);
}

static void collect(int signal)
{
    (void)signal;
    while (waitpid(-1, NULL, WNOHANG) > 0)
        continue;
}

int main(void)
{
    struct sigaction on_stop = {.sa_handler = stop};
    struct sigaction on_child = {.sa_handler = collect, .sa_flags = SA_NOCLDSTOP | SA_RESTART};

    sigaction(SIGINT, &on_stop, NULL);
    sigaction(SIGTERM, &on_stop, NULL);
    sigaction(SIGCHLD, &on_child, NULL);
    collect(0);
    for (;;)
        pause();
}
