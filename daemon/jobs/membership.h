// Tracks which process on this node holds which rank of which group.
//
// The first local rank that asks for a group makes it, and gives the other local ranks a place in
// it. So a process that ends before it asks fails the group as well. README.md, Membership, has the
// states of a place.
//
// One user has at most groups_per_user_max of the kGroupsMax groups, so that one user's splits do
// not keep other users' jobs from forming. Users without a name are not limited.
//
// Owner: Jobs. Thread: the loop's; time is an argument. Memory: an entry for each group and each
// place, at most kGroupsMax groups, and kPlacesMax places of a session.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "daemon/collective/collectives.h"
#include "proto/types/failure.h"
#include "proto/types/job_id.h"

namespace mlxcomm::jobs {

using collective::SessionId;

enum class GroupKind : std::uint8_t { kWorld, kSplit, kShrunk };

struct GroupOrigin {
  GroupKind kind = GroupKind::kWorld;
  JobId job = {};
  std::uint64_t parent = 0;                      // Split or shrunk from.
  std::vector<std::uint32_t> parent_ranks = {};  // Each rank's rank in the parent.
  // The world group, or a group that it has shrunk to.
  bool is_main = true;
  std::uint32_t shrinks = 0;        // Counted from the world group to this one.
  std::uint32_t size_at_start = 0;  // The job's size.
};

struct SplitCall {
  std::uint64_t group = 0;  // The new group's id, the same on all nodes.
  std::uint64_t parent = 0;
  std::uint64_t number = 0;
  std::vector<std::uint32_t> ranks;
  std::string name;
};

class Membership {
 public:
  static constexpr std::size_t kGroupsMax = 4096;
  static constexpr std::size_t kPlacesMax = 1024;
  static constexpr std::size_t kNameBytesMax = 100;      // One part.
  static constexpr std::size_t kFullNameBytesMax = 300;  // "train/rows/left"

  explicit Membership(collective::Collectives& collectives,
                      std::size_t groups_per_user_max = kGroupsMax)
      : collectives_(collectives), groups_per_user_max_(groups_per_user_max) {}

  // Ok if this user may have one more group; otherwise RESOURCE_EXHAUSTED with the reason.
  Failure RoomFor(const std::string& user) const;

  // A world group. `sessions` by rank; 0: remote, or a local process that has gone.
  // False in the same cases as RoomFor and Collectives::AddGroup.
  [[nodiscard]] bool AddWorld(std::uint64_t group, const JobId& job,
                              std::vector<collective::Member> members,
                              const std::vector<SessionId>& sessions,
                              const collective::LinkCosts& costs, std::uint64_t now_ns);
  // The remaining ranks of `parent`. `sessions` by new rank.
  [[nodiscard]] bool AddShrunk(std::uint64_t group, std::uint64_t parent,
                               const std::vector<std::uint32_t>& ranks,
                               const std::vector<SessionId>& sessions, std::uint64_t now_ns);
  // The session's rank joins the group; the first one on this node makes it.
  [[nodiscard]] Failure Split(SessionId session, const SplitCall& call, std::uint64_t now_ns);

  // Leaves one group in order. Returns the groups left, including those split from it that the
  // session had not asked for yet; empty: not one of its groups.
  std::vector<std::uint64_t> Release(SessionId session, std::uint64_t group, std::uint64_t now_ns);
  std::vector<std::uint64_t> LeaveAll(SessionId session, std::uint64_t now_ns) {
    return LeaveEverything(session, {}, now_ns);
  }
  std::vector<std::uint64_t> OnSessionEnded(SessionId session, const std::string& why,
                                            std::uint64_t now_ns) {
    return LeaveEverything(session, {false, why}, now_ns);
  }
  // Gives up a place that the session will never use.
  void GiveUp(SessionId session, std::uint64_t group, const std::string& why,
              std::uint64_t now_ns) {
    Leave(session, group, {false, why}, now_ns);
  }
  // A peer has reported a failure of the group. A rank that it names as lost is lost in all groups
  // split from it, even if its own daemon never knew them.
  void SpreadLoss(std::uint64_t group, std::uint64_t now_ns);

  // Forgets groups that all local ranks have left; returns their ids.
  std::vector<std::uint64_t> RemoveLeft();
  bool AnyLeft() const { return !left_.empty(); }

  // The session's rank in a group; nullptr: it has not joined it.
  const std::uint32_t* RankOf(SessionId session, std::uint64_t group) const;
  bool HasPlaces(SessionId session) const { return sessions_.contains(session); }
  // The session's rank in its job's world or shrunk world; nullopt if it has none.
  struct JobRank {
    JobId job;
    std::uint32_t rank = 0;
  };
  std::optional<JobRank> JobRankOf(SessionId session) const;
  // The session with that rank; 0: it is remote, gone, or has left.
  SessionId HolderOf(std::uint64_t group, std::uint32_t rank) const;
  const GroupOrigin* OriginOf(std::uint64_t group) const {
    const auto entry = groups_.find(group);
    return entry == groups_.end() ? nullptr : &entry->second.origin;
  }
  std::size_t group_count() const { return groups_.size(); }
  std::size_t group_count(const std::string& user) const {
    const auto found = groups_of_.find(user);
    return found == groups_of_.end() ? 0 : found->second;
  }
  std::size_t groups_per_user_max() const { return groups_per_user_max_; }

 private:
  struct Place {
    std::uint32_t rank = 0;
    bool joined = false;
  };
  using Places = std::map<std::uint64_t, Place>;  // Keyed by group.
  struct Entry {
    GroupOrigin origin;
    std::vector<SessionId> holders;  // Keyed by local rank; 0: gone or left.
    std::size_t places = 0;          // Held ones.
  };
  struct Departure {
    bool in_order = true;
    std::string why;
  };

  [[nodiscard]] bool Add(std::uint64_t group, const std::string& name, GroupOrigin origin,
                         std::vector<collective::Member> members,
                         const collective::LinkCosts& costs);
  void Seat(std::uint64_t group, std::uint32_t rank, SessionId session, bool joined,
            const std::string& why_not, std::uint64_t now_ns);
  Failure CheckSplit(SessionId session, const SplitCall& call) const;
  Failure CheckRanks(const SplitCall& call, std::uint32_t own_rank, std::uint32_t size) const;
  Failure JoinExisting(SessionId session, const SplitCall& call);
  Failure Make(SessionId session, const SplitCall& call, std::uint64_t now_ns);
  void Leave(SessionId session, std::uint64_t group, const Departure& departure,
             std::uint64_t now_ns);
  std::vector<std::uint64_t> LeaveEverything(SessionId session, const Departure& departure,
                                             std::uint64_t now_ns);

  collective::Collectives& collectives_;
  const std::size_t groups_per_user_max_;
  absl::flat_hash_map<SessionId, Places> sessions_;
  std::map<std::uint64_t, Entry> groups_;
  std::map<std::string, std::size_t> groups_of_;  // Keyed by user.
  std::vector<std::uint64_t> left_;               // Groups without a held place.
};

}  // namespace mlxcomm::jobs
