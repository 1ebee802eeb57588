"""The socket stays while the service is stopped, and whoever connects starts it."""
from machine import Job, check, main_pid, of_unit, run, user, wait_for


def stop_service():
    run("systemctl", "stop", "terraced.service")
    check(main_pid() == 0 and of_unit("terraced", "ActiveState") == "inactive", "the service was not stopped")
    check(of_unit("terraced.socket", "ActiveState") == "active", "the socket went with the service")


def case_job():
    """A job of a member starts the stopped service, and pages through it."""
    stop_service()
    job = Job("starts_it", user=user("alice"))
    job.goes_on(2).pages()
    check(of_unit("terraced", "ActiveState") == "active" and main_pid() != 0, "no service runs")
    job.ends_right()


def case_command():
    """`terrace status` starts the stopped service, too."""
    stop_service()
    run("terrace", "status")
    wait_for(lambda: of_unit("terraced", "ActiveState") == "active", "the service")


def case_running_job():
    """A job that runs when the service is stopped starts it, since it looks for it."""
    job = Job("looks_for_it")
    job.goes_on().pages()
    before = main_pid()
    run("systemctl", "stop", "terraced.service")
    wait_for(lambda: main_pid() not in (0, before), "the job to bring the service back", 60)
    wait_for(job.row, "the job to attach", 60)
    job.goes_on().ends_right()
