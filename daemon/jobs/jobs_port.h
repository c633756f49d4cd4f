// Gives jobs what they need from their process: memory that local processes share, and the event log.
// NodePort extends it, so the loop and the simulator implement it.
//
// Owner: the node's owner; outlives the node. Thread: the node's; may not call back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "daemon/intake/submission.h"
#include "daemon/record/event_log.h"
#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::jobs {

using intake::SessionId;

class JobsPort {
 public:
  // The session has ended, and no operation names its memory any more.
  virtual void ReleaseMemory(SessionId session) = 0;
  // Zeroed memory that these sessions' processes will share, in order of rank; nullptr: none is
  // available. GivePage hands it to them; it stays until DropPage.
  virtual std::byte* MakePage(std::uint64_t /*group*/, std::size_t /*bytes*/,
                              const std::vector<SessionId>& /*sessions*/) {
    return nullptr;
  }
  virtual void GivePage(std::uint64_t /*group*/, const std::vector<SessionId>& /*sessions*/) {}
  virtual void DropPage(std::uint64_t /*group*/) {}
  // Handles an entry like one from the session's queue; nullopt if it was refused, or the process
  // is gone.
  virtual std::optional<intake::Submission> TakeOver(SessionId /*session*/,
                                                     const queue::SubmissionEntry& /*entry*/) {
    return std::nullopt;
  }
  virtual void OnGroups(std::size_t groups) = 0;
  // Writes the node's links, whose measurements become a job's costs.
  virtual void DescribeLinks(v1::NodeStatus& status) const = 0;
  // Writes to the event log, for people; the event has no time.
  virtual void OnEvent(record::LoggedEvent event) = 0;

 protected:
  ~JobsPort() = default;
};

}  // namespace mlxcomm::jobs
