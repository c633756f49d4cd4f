// One call to the local daemon: hello as a tool, then gRPC on the same connection.
//
// Thread: any; each call has a connection of its own. Memory: plain messages.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "mlxcomm/v1/diagnostics.pb.h"
#include "proto/types/failure.h"

namespace mlxcomm::ctl {

// The end of the message where no daemon runs.
inline constexpr char kHowToStartIt[] =
    ". mlxcommctl launch starts one for its job, mlxcommctl service install one that stays; or "
    "name "
    "its socket (--socket, MLXCOMM_SOCKET)";
// Where one runs that this user may not ask.
inline constexpr char kNotAllowed[] =
    ". This user may not use it: sudo does, or clients { all_users: true } in its configuration";

// `socket_path` empty: found as by every client (queue::SocketCandidates).
Failure FetchStatus(const std::string& socket_path, v1::StatusReply& reply,
                    std::uint64_t timeout_ns = 5'000'000'000);
Failure FetchRecord(const std::string& socket_path, const v1::FlightRecordRequest& request,
                    v1::FlightRecordReply& reply);

Failure FetchTopology(const std::string& socket_path, v1::TopologyReply& reply);
Failure FetchCheckups(const std::string& socket_path, v1::DoctorReply& reply);
// What the daemon that answers reports of itself; an empty one if none answers.
v1::NodeCheckup FetchOwnCheckup(const std::string& socket_path);
Failure FetchPing(const std::string& socket_path, const v1::PingRequest& request,
                  v1::PingReply& reply);
// Passes each event to `take`, which returns false to end; a call that follows has no deadline.
Failure ReadEvents(const std::string& socket_path, const v1::EventsRequest& request,
                   const std::function<bool(const v1::EventsReply&)>& take);

// A connection to the daemon that stays, as a launcher: a private daemon does not end before it.
class LauncherSession {
 public:
  // UNAVAILABLE: no daemon is there, or it does not answer.
  static Failure Open(const std::string& socket_path, std::uint64_t timeout_ns,
                      std::unique_ptr<LauncherSession>& session);
  virtual ~LauncherSession() = default;
  virtual Failure FetchStatus(v1::StatusReply& reply, std::uint64_t timeout_ns) = 0;
  // INVALID_ARGUMENT: it has no rank of such a job.
  virtual Failure EndJob(const v1::EndJobRequest& request, v1::EndJobReply& reply) = 0;
  // The daemon has ended it.
  virtual bool has_ended() const = 0;
};

}  // namespace mlxcomm::ctl
