// How a group is split: its ranks exchange color and key, those of one color ask their daemons for
// the part, and all exchange whether they have it.
//
//   all_gather (color, key) ─▶ RPC Split, with the ranks ─▶ all_gather the outcomes
//                               (none for a part of one rank)
//
// The second exchange is a barrier too: no rank uses a part before all its ranks have it. Where one
// rank has failed to make it, the others release the part again and return an error that names that
// rank and its reason; other parts, and the group that was split, go on.
//
// Thread: any; one split of a group at a time begins. Memory: a page or more of the arena while it
// lasts.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "client/lib/handles.h"

namespace mlxcomm::client {

struct SplitRequest {
  std::int32_t color = 0;  // MLXCOMM_NO_GROUP: takes no part.
  std::int32_t key = 0;
  std::string name;  // The part's, without the parent's.
  std::uint64_t timeout_ns = 0;
};

// `part` stays empty for a rank that takes no part.
Failure SplitGroup(mlxcomm_group& group, const SplitRequest& request,
                   std::unique_ptr<mlxcomm_group>& part);

// A handle in its first state; it inherits timeout and plan.
std::unique_ptr<mlxcomm_group> MakeGroup(const mlxcomm_group& parent, GroupFacts facts,
                                         bool with_daemon);

}  // namespace mlxcomm::client
