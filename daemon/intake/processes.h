// The local processes, as jobs and the node use them. Intake implements it over shared memory, the
// simulator over its clients.
//
// Owner: the node's owner; outlives the node. Thread: the node's; may not call back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "daemon/intake/submission.h"
#include "proto/types/failure.h"

namespace mlxcomm::intake {

class Processes {
 public:
  // The end of an operation. Does nothing for a session that has ended.
  virtual void Complete(SessionId session, std::uint64_t ticket, std::uint64_t group,
                        const Failure& failure, bool group_failed) = 0;
  // Answers a SubmissionPurpose::kClose: a completion without a ticket.
  virtual void AnswerClose(SessionId /*session*/, std::uint64_t /*group*/) {}
  // Unmaps an ended session's memory. No part of the daemon may use it afterwards.
  virtual void ReleaseMemory(SessionId session) = 0;
  // Zeroed memory that these sessions' processes will share, in order of rank; nullptr: none is
  // available. GivePage hands it to them; it stays until DropPage.
  virtual std::byte* MakePage(std::uint64_t /*group*/, std::size_t /*bytes*/,
                              const std::vector<SessionId>& /*sessions*/) {
    return nullptr;
  }
  virtual void GivePage(std::uint64_t /*group*/, const std::vector<SessionId>& /*sessions*/) {}
  virtual void DropPage(std::uint64_t /*group*/) {}
  // Treats an entry that the client wrote to its group's page like one from its queue. nullopt if
  // it was refused, it ended the session, or the session no longer exists.
  virtual std::optional<collective::Call> TakeOver(SessionId /*session*/,
                                                   const queue::SubmissionEntry& /*entry*/) {
    return std::nullopt;
  }
  // Valid until the client's memory is released; zeros for tools.
  virtual CopiedResults ResultsCopiedBy(SessionId /*session*/) const { return {}; }

 protected:
  ~Processes() = default;
};

}  // namespace mlxcomm::intake
