// What runs in the process that calls a device's driver: a thread answers the daemon's requests, and
// one for each queue pair posts what the daemon asks for and reports what has completed.
//
//   queue pair's thread: requests ─▶ post ─▶ poll ─▶ completions, as long as anything moves or the
//     daemon's thread looks as well ─▶ have the completion queue tell, look once more, sleep
//
// It ends when the daemon has, however that came about, and whatever its threads do then: its
// standard input ends. Signals that end a daemon in an orderly way are ignored: it is needed
// until the daemon has drained.
//
// Thread: main, of a process that does nothing else.
#pragma once

namespace mlxcomm::fabric::rdma {

// `socket`: a stream to the daemon; the exit code.
int RunDriver(int socket);

}  // namespace mlxcomm::fabric::rdma
