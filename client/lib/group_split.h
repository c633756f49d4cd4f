// How a group is split: its ranks tell each other color and key, those of a color ask
// their daemons for the part, and all hear whether everybody has it.
//
//   all_gather (color, key) ─▶ RPC Split, with the ranks ─▶ all_gather how that went
//                              (a part of one rank: none)
//
// The second exchange is a barrier too: nobody uses a part before all its ranks have it.
// Where one has not, its part is released again by the others, who are told which rank
// failed and why; other parts, and the group that was split, go on.
//
// Owner: functions. Thread: any; one split of a group at a time begins. Memory: a page or
// more of the arena while it lasts.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "client/lib/handles.h"

namespace mlxcomm::client {

struct SplitRequest {
  std::int32_t color = 0;  // MLXCOMM_NO_GROUP: no part.
  std::int32_t key = 0;
  std::string name;  // Of the part, without the parent's.
  std::uint64_t timeout_ns = 0;
};

// `part` stays empty for a rank that takes none.
Failure SplitGroup(mlxcomm_group& group, const SplitRequest& request,
                   std::unique_ptr<mlxcomm_group>& part);

// The handle's first state; inherits timeout and plan.
std::unique_ptr<mlxcomm_group> MakeGroup(const mlxcomm_group& parent, GroupFacts facts,
                                         bool with_daemon);

}  // namespace mlxcomm::client
