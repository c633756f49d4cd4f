"""What mlxcomm assumes about Macs, untested: sentences that firstlight confirms or refutes, each with its
source and the step that checks it."""

import collections

SOURCES = {"xnu": "XNU's source", "note": "Apple, TN3205", "mlx": "MLX's source", "users": "users' reports",
           "llama": "llama.cpp, transport-apple.cpp", "guess": "guess"}
# A step's rows: id, whose meaning never changes; source; assumption.
TABLE = """
system
  port-link-local xnu each Thunderbolt port with a cable has an IPv6 link-local address
  port-service guess each Thunderbolt port has a network service of its own
  port-bridge users Thunderbolt ports are members of bridge0 by default
platform
  shm-fixed-size xnu the size of shared memory cannot be changed once it is set
  wake-time guess a sleeping thread wakes within 100 us of its doorbell (median)
  full-backlog xnu connecting to a full backlog fails with EAGAIN on Linux, ECONNREFUSED on macOS
  process-exit xnu a process that is not the parent is notified of a process's exit
gpu
  gpu-default mlx MLX's default device is the GPU
  gpu-small guess a sum of 1 KiB is right, and the default device computes with it
  gpu-large guess so is a sum of 1 GiB (or an eighth of the memory)
  gpu-shares guess the default device uses shared memory as a buffer, without a copy
loopback
  loopback-values guess two ranks on this machine get right values at each size
  loopback-rate guess their bus bandwidth at 128 MiB is at least 4 GB/s
rdma
  rdma-names note an RDMA device is named rdma_ and the interface of its cable
  rdma-gid-ipv4 mlx the port of an active device has an IPv4-mapped GID
  rdma-gid-first users its first GID is link-local
  rdma-describe llama a device reports its attributes
  rdma-uc note unreliable queue pairs can be created
  rdma-no-rc note reliable ones cannot
  rdma-access mlx a region can be registered with remote access
  rdma-access-needed llama and not without it
  rdma-channel guess a thread can sleep until a completion arrives
  rdma-depth note a queue gets the requested depth
  rdma-receives-after llama receives can be posted when the queue pair is ready to send
  rdma-receives-before llama but not before it is ready to receive
  rdma-message mlx a message of five frames arrives
  rdma-message-frame note a message of one frame arrives
  rdma-message-equal note a message with fewer frames than its receive does not arrive
  rdma-destroy llama a queue pair with posted receives can be destroyed, and another created
  rdma-region-large guess 256 MiB can be registered at once
  rdma-region-shared guess so can 256 MiB of memory shared with another process
  rdma-region-boundary users a region across a 4 GiB boundary is registered (and then wrong)
  rdma-pairs note a device has at most 10 queue pairs
  rdma-regions users a device has at most 100 regions
neighbour
  neighbour guess the neighbour on the cable is found and linked without configuration
  neighbour-rdma guess an RDMA rail comes up beside the TCP connection
  neighbour-answers guess the neighbour's daemon answers within 10 ms
cable
  cable-values guess ranks on both Macs get right values at each size
pull
  pull-seen xnu the interface watch reports a pulled cable at most 1 s after its rails
  pull-rails guess all rails on a pulled cable are down within 1 s of that report
  pull-daemon users the daemon survives it (Apple's driver has crashed when a cable was pulled)
  plug-rails guess the rails are back within 5 s of plugging it in
  plug-addresses users the interface has the same addresses as before
sleep
  sleep-clock xnu the clock used for deadlines counts the time asleep
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

# Trials of an RDMA device (mlxcommd --try-rdma): those whose refusal confirms the assumption, and those whose
# assumption is not named "rdma-" and the trial.
REFUSED = {"pair-rc", "region-local", "receives-before", "message-short"}
RENAMED = {"pair-uc": "rdma-uc", "pair-rc": "rdma-no-rc", "region-remote": "rdma-access",
           "region-local": "rdma-access-needed", "message-short": "rdma-message-equal"}
