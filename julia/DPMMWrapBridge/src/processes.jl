# Worker processes: starting them, waiting for them, and saying which one was lost.

"""
    start_workers(count, hosts, counts)

Start `count` processes on this machine and `counts[i]` on each `hosts[i]` over SSH; the numbers they got.
They have this process's project and load path, and load this package.
"""
function start_workers(count::Integer, hosts = String[], counts = Int[])
    machines = [(String(host), Int(number)) for (host, number) in zip(hosts, counts)]
    flags = `--startup-file=no --threads=1 --project=$(dirname(Base.active_project()))`
    environment = ["JULIA_LOAD_PATH" => join(LOAD_PATH, Sys.iswindows() ? ';' : ':')]
    added = Int[]
    try
        count > 0 && append!(added, addprocs(count; exeflags = flags, env = environment))
        # The connection goes through SSH itself: only that port needs to be open.
        isempty(machines) ||
            append!(added, addprocs(machines; exeflags = flags, env = environment, tunnel = true))
        identity = Base.PkgId(@__MODULE__)
        @sync for worker in added
            @async remotecall_wait(Base.require, worker, identity)
        end
    catch
        stop_workers(added)
        rethrow()
    end
    return added
end

"End these processes; those that have died already are no trouble."
function stop_workers(added::Vector{Int})
    alive = intersect(added, workers())
    isempty(alive) || rmprocs(alive; waitfor = 30)
    return
end

"""
    wait_for_relabelling(processes)

`check_and_split!` and others have the labels rewritten by tasks that nobody waits for. A process runs its tasks
in the order in which they came, so an empty one that has ended means that those before it have.
"""
function wait_for_relabelling(processes)
    @sync for process in processes
        @spawnat process nothing
    end
    return
end

"The number of the worker whose death caused this error, or `nothing` if that was not the cause."
lost_worker(error) = nothing
lost_worker(error::ProcessExitedException) = error.worker_id
lost_worker(error::RemoteException) = lost_worker(error.captured)
lost_worker(error::CapturedException) = lost_worker(error.ex)
lost_worker(error::TaskFailedException) = lost_worker(error.task.exception)
function lost_worker(error::CompositeException)
    found = filter(!isnothing, map(lost_worker, error.exceptions))
    return isempty(found) ? nothing : first(found)
end
