// Calls to the local daemon: a hello as a tool, then gRPC on the same connection.
//
// Thread: any; each call has its own connection. Memory: plain messages.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "mlxcomm/v1/diagnostics.pb.h"
#include "proto/types/failure.h"

namespace mlxcomm::ctl {

// The end of the message if no daemon runs.
inline constexpr char kHowToStartIt[] =
    ". mlxcommctl launch starts one for its job, mlxcommctl service install one that stays; or "
    "name its socket (--socket, MLXCOMM_SOCKET)";
// The end of the message if a daemon runs that this user may not use.
inline constexpr char kNotAllowed[] =
    ". This user may not use it: use sudo, or set clients { all_users: true } in its configuration";

// Keeps gRPC initialized until the process exits. Otherwise each call may initialize it again, and
// gRPC aborts if no descriptors are left then.
void KeepGrpcInitialized();

// `socket_path` empty: the default (queue::SocketCandidates).
Failure FetchStatus(const std::string& socket_path, v1::StatusReply& reply,
                    std::uint64_t timeout_ns = 5'000'000'000);
Failure FetchRecord(const std::string& socket_path, const v1::FlightRecordRequest& request,
                    v1::FlightRecordReply& reply);

Failure FetchTopology(const std::string& socket_path, v1::TopologyReply& reply);
Failure FetchCheckups(const std::string& socket_path, v1::DoctorReply& reply);
// The daemon's report about its own machine; empty if none answers.
v1::NodeCheckup FetchOwnCheckup(const std::string& socket_path);
Failure FetchPing(const std::string& socket_path, const v1::PingRequest& request,
                  v1::PingReply& reply);
// Passes each event to `take` until it returns false. If the request has follow(), there is no
// deadline.
Failure ReadEvents(const std::string& socket_path, const v1::EventsRequest& request,
                   const std::function<bool(const v1::EventsReply&)>& take);

// A lasting connection as a launcher, which keeps a private daemon from ending.
class LauncherSession {
 public:
  // UNAVAILABLE: no daemon answers.
  static Failure Open(const std::string& socket_path, std::uint64_t timeout_ns,
                      std::unique_ptr<LauncherSession>& session);
  virtual ~LauncherSession() = default;
  virtual Failure FetchStatus(v1::StatusReply& reply, std::uint64_t timeout_ns) = 0;
  // INVALID_ARGUMENT: the daemon has no rank of this job.
  virtual Failure EndJob(const v1::EndJobRequest& request, v1::EndJobReply& reply) = 0;
  // Returns whether the daemon has closed it.
  virtual bool has_ended() const = 0;
};

}  // namespace mlxcomm::ctl
