"""What mlxcomm assumes about Macs without having seen it on one: each assumption is a sentence that first
light confirms or refutes, with its source and the step that tries it."""

import collections

SOURCES = {"xnu": "XNU's source", "note": "Apple, TN3205", "mlx": "MLX's source", "users": "users' reports",
           "llama": "llama.cpp, transport-apple.cpp", "guess": "guess"}
# Under each step: the id, which never changes its meaning; the source; the assumption.
TABLE = """
system
  port-link-local xnu each Thunderbolt port with a cable has an IPv6 link-local address
  port-service guess each Thunderbolt port has a network service of its own
  port-bridge users Thunderbolt ports are members of bridge0 until somebody changes it
platform
  page-size xnu pages of macOS have 16 KiB
  shm-fixed-size xnu the size of shared memory cannot be changed once it is set
  shm-name xnu shared memory may have a name of 25 characters
  shm-sparse xnu shared memory as large as the machine's costs only the pages that are touched
  shm-passed xnu shared memory passes a Unix socket and is mapped at the other end
  bell xnu a bell that is rung often is heard once
  wake-time guess a thread that sleeps is awake within 100 us of its bell (median)
  peer-process xnu a Unix socket tells which process and user is at its other end
  full-backlog xnu to connect where too many wait is EAGAIN on Linux, ECONNREFUSED on macOS
  process-exit xnu the end of a process is told to one that is not its parent
  open-files xnu the limit of open files can be raised to what is allowed, at most 65536
  interface-watch xnu the system tells when an interface changes
  multicast xnu hellos can be sent on each interface, and do not come back
gpu
  gpu-default mlx MLX's default device is the GPU
  gpu-small guess the sum of 1 KiB is right, also for an operation of the default device
  gpu-large guess the sum of 1 GiB (or an eighth of the memory) is right as well
  gpu-shares guess the default device takes shared memory for a buffer, without a copy
loopback
  loopback-values guess two ranks here get right values at each size
  loopback-rate guess their bus bandwidth at 128 MiB is at least 4 GB/s
rdma
  rdma-names note an RDMA device is called rdma_ and the interface whose cable it is on
  rdma-gid-ipv4 mlx the port of an active device has an IPv4-mapped GID
  rdma-gid-first users its first GID is link-local
  rdma-describe llama a device says what it is
  rdma-uc note unreliable queue pairs can be had
  rdma-no-rc note reliable ones cannot
  rdma-access mlx a region is registered with remote access
  rdma-access-needed llama and not without it
  rdma-channel guess completions can be waited for
  rdma-depth note a queue of the depth that is taken is given
  rdma-receives-after llama receives are taken when the queue pair is ready to send
  rdma-receives-before llama and not before it is ready to receive
  rdma-message mlx a message of five frames arrives whole
  rdma-message-frame note a message of one frame arrives whole
  rdma-message-equal note a message of fewer frames than its receive does not arrive
  rdma-destroy llama a queue pair is destroyed with receives posted, and another can be had
  rdma-region-large guess 256 MiB are registered at once
  rdma-region-shared guess so are 256 MiB of memory that another process shares
  rdma-region-boundary users a region that reaches over 4 GiB is registered (and then wrong)
  rdma-pairs note a device has at most 10 queue pairs
  rdma-regions users a device has at most 100 regions
neighbour
  neighbour guess the neighbour on the cable is found and linked, with nothing told of it
  neighbour-rdma guess an RDMA rail comes up beside the connection
  neighbour-answers guess the neighbour's daemon answers within 10 ms
cable
  cable-values guess ranks on both Macs get right values at each size
pull
  pull-seen xnu the interface watch tells of a pulled cable, at most 1 s after its rails
  pull-rails guess all rails on a pulled cable are down within 1 s of that
  pull-daemon users the daemon outlives it (Apple's driver has crashed when a cable was pulled)
  plug-rails guess the rails are back within 5 s of the cable
  plug-addresses users the interface has the same addresses as before
sleep
  sleep-clock xnu the clock that deadlines follow counts the time asleep
  sleep-rails guess rails are up 30 s after waking
power
  power-assertion xnu caffeinate -ims keeps a Mac awake without a terminal
"""


Assumption = collections.namedtuple("Assumption", "id assumed source step")
ASSUMPTIONS = {}
for _line in TABLE.strip().splitlines():
    if _line[0] != " ":
        _step = _line
    else:
        _id, _source, _assumed = _line.split(maxsplit=2)
        ASSUMPTIONS[_id] = Assumption(_id, _assumed, SOURCES[_source], _step)

# Trials of an RDMA device (mlxcommd --try-rdma) that confirm an assumption when the device refuses them,
# and those whose assumption is not called rdma- and their name.
REFUSED = {"pair-rc", "region-local", "receives-before", "message-short"}
RENAMED = {"pair-uc": "rdma-uc", "pair-rc": "rdma-no-rc", "region-remote": "rdma-access",
           "region-local": "rdma-access-needed", "message-short": "rdma-message-equal"}
