# Worker processes: starting them, waiting for them, and saying which one was lost.

"Where workers are to run over SSH; what is empty is as on this machine."
Base.@kwdef struct Machine
    host::String
    processes::Int = 1
    exename::String = ""
    dir::String = ""
    depot::String = ""
    project::String = ""
    bridge::String = ""
    ssh_config::String = ""
    environment::Vector{String} = String[]
end

"A machine that says nothing for so many seconds, whatever SSH asks it, is lost: its power or its network may be off."
const LONGEST_SILENCE = Ref(60)

"On which machine a worker runs, for those that are not on this one."
const PLACES = Dict{Int,String}()

place_of(worker::Int) = haskey(PLACES, worker) ? " on $(PLACES[worker])" : ""

"""
    start_workers(count, machines)

Start `count` processes on this machine and those that each of `machines` is to have; the numbers they got.
They have this process's project and load path, unless a machine has its own, and load this package.
"""
function start_workers(count::Integer, machines = Machine[])
    added = Int[]
    try
        if count > 0
            append!(added, addprocs(count; exeflags = flags(""), env = ["JULIA_LOAD_PATH" => load_path("")]))
        end
        foreach(machine -> append!(added, start_on(machine)), machines)
        identity = Base.PkgId(@__MODULE__)
        @sync for worker in added
            @async load_on(worker, identity)
        end
    catch error
        stop_workers(added)
        # Without the tasks in which it happened.
        throw(root(error))
    end
    return added
end

# Workers begin as this process did, with its options; but what they run is worth optimising.
flags(project::String) =
    `--startup-file=no --threads=1 -O2 --project=$(isempty(project) ? dirname(Base.active_project()) : project)`

"This process's load path, with another place for this package if there is one."
function load_path(bridge::String)
    own = pkgdir(@__MODULE__)
    folders = [isempty(bridge) || folder != own ? folder : bridge for folder in LOAD_PATH]
    return join(folders, Sys.iswindows() ? ';' : ':')
end

function start_on(machine::Machine)
    environment = ["JULIA_LOAD_PATH" => load_path(machine.bridge)]
    depot = isempty(machine.depot) ? get(ENV, "JULIA_DEPOT_PATH", "") : machine.depot
    isempty(depot) || push!(environment, "JULIA_DEPOT_PATH" => depot)
    append!(environment, [name => value for (name, value) in split.(machine.environment, '='; limit = 2)])
    # Nobody is there to type a password, and a machine that does not answer is not waited for.
    ssh = `-o BatchMode=yes -o ConnectTimeout=20`
    ssh = `$ssh -o ServerAliveInterval=$(cld(LONGEST_SILENCE[], 4)) -o ServerAliveCountMax=4`
    isempty(machine.ssh_config) || (ssh = `$ssh -F $(machine.ssh_config)`)
    own = Dict{Symbol,Any}()
    isempty(machine.exename) || (own[:exename] = machine.exename)
    isempty(machine.dir) || (own[:dir] = machine.dir)
    added = try
        # The connection goes through SSH itself: only that port needs to be open.
        options = (; exeflags = flags(machine.project), env = environment, tunnel = true, sshflags = ssh)
        addprocs([(machine.host, machine.processes)]; options..., own...)
    catch error
        error isa InterruptException && rethrow()
        throw(ErrorException("no worker could be started on $(machine.host): $(first_line(error))"))
    end
    length(added) == machine.processes ||
        throw(ErrorException("$(length(added)) of $(machine.processes) workers could be started on $(machine.host)"))
    foreach(worker -> PLACES[worker] = machine.host, added)
    return added
end

function load_on(worker::Int, identity::Base.PkgId)
    try
        remotecall_wait(Base.require, worker, identity)
    catch error
        error isa InterruptException && rethrow()
        throw(ErrorException("worker process $worker of Julia$(place_of(worker)) cannot load the sampler: $(first_line(error))"))
    end
end

"The first line of what an error says, of the error at its root."
first_line(error) = String(first(split(sprint(showerror, root(error)), '\n')))

root(error) = error
root(error::RemoteException) = root(error.captured)
root(error::CapturedException) = root(error.ex)
root(error::TaskFailedException) = root(error.task.exception)
root(error::CompositeException) = isempty(error.exceptions) ? error : root(first(error.exceptions))

"End these processes; those that have died already are no trouble."
function stop_workers(added::Vector{Int})
    alive = intersect(added, workers())
    isempty(alive) || rmprocs(alive; waitfor = 30)
    foreach(worker -> delete!(PLACES, worker), added)
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

"The number of the worker, one of these processes, whose death caused this error, or `nothing` if that was not the cause."
lost_worker(error, processes) = nothing
lost_worker(error::ProcessExitedException, processes) = error.worker_id
lost_worker(error::Union{RemoteException,CapturedException,TaskFailedException}, processes) =
    lost_worker(root(error), processes)
function lost_worker(error::CompositeException, processes)
    found = filter(!isnothing, [lost_worker(one, processes) for one in error.exceptions])
    return isempty(found) ? nothing : first(found)
end

# Writing to a worker that has just died may fail before it is known which one it was.
function lost_worker(error::Base.IOError, processes)
    known() = !issubset(processes, procs())
    processes == [myid()] || timedwait(known, 10)
    return known() ? first(setdiff(processes, procs())) : nothing
end
