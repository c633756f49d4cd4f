// The work that the soak's jobs do, drawn from a seed that all ranks of a job share.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/ground/checked_operation.h"
#include "tests/ground/tasks.h"

namespace mlxcomm::ground {
namespace {

constexpr std::uint64_t kTimeout = 30'000'000'000;  // tests/soak/test_soak.py has the same.
constexpr std::uint64_t kBytesMax = 4 << 20;
constexpr double kShareOfCore = 0.02;
constexpr double kReportEveryS = 1;

double CpuSeconds() {
  timespec read{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &read);
  return static_cast<double>(read.tv_sec) + static_cast<double>(read.tv_nsec) / 1e9;
}

// The seed's next draw, the same on all ranks of a group.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : random_(seed) {}
  std::uint64_t Below(std::uint64_t bound) { return random_() % bound; }
  std::uint64_t Bytes(std::uint64_t least, std::uint64_t most) {
    const double octaves = std::log2(static_cast<double>(most) / static_cast<double>(least));
    const double part = static_cast<double>(random_() >> 11) / 9007199254740992.0;
    return static_cast<std::uint64_t>(static_cast<double>(least) * std::exp2(octaves * part));
  }

 private:
  std::mt19937_64 random_;
};

oracle::Operation DrawSmall(Dice& dice, std::uint32_t size) {
  oracle::Operation o;
  do {
    o.kind = static_cast<OperationKind>(1 + dice.Below(13));
  } while (IsPointToPoint(o.kind));
  do {
    o.type = static_cast<DataType>(1 + dice.Below(14));
    o.op = Reduces(o.kind) ? static_cast<ReduceOperator>(1 + dice.Below(7)) : ReduceOperator::kNone;
  } while (Reduces(o.kind) && !HasMeaning(o.type, o.op));
  if (!IsEmpty(o.kind) && dice.Below(16) != 0) {
    o.count = dice.Bytes(8, CheckedOperation::kSmallBytesMax) / DataTypeBytes(o.type);
  }
  o.size = size;
  o.root = static_cast<std::uint32_t>(dice.Below(size));
  o.salt = dice.Below(65521);
  return o;
}

oracle::Operation DrawLarge(Dice& dice, std::uint32_t size) {
  static constexpr OperationKind kKinds[] = {
      OperationKind::kAllReduce, OperationKind::kAllGather,  OperationKind::kReduceScatter,
      OperationKind::kBroadcast, OperationKind::kAllToAll,   OperationKind::kAllReduce,
      OperationKind::kReduce,    OperationKind::kAllGatherV, OperationKind::kAllToAllV};
  oracle::Operation o;
  o.kind = kKinds[dice.Below(std::size(kKinds))];
  o.type = DataType::kUint64;
  o.op = Reduces(o.kind) ? ReduceOperator::kSum : ReduceOperator::kNone;
  o.count = dice.Bytes(CheckedOperation::kSmallBytesMax + 8, kBytesMax / size) / 8;
  o.size = size;
  o.root = static_cast<std::uint32_t>(dice.Below(size));
  o.salt = dice.Below(65521);
  return o;
}

class MixedWork {
 public:
  MixedWork(Connection& connection, std::uint64_t seed, std::string stop_file)
      : connection_(connection), seed_(seed), stop_file_(std::move(stop_file)) {}

  // Until the end, on which all ranks agree. Throws if the work cannot continue.
  void Work(Group& world) {
    std::optional<Group> rest;
    Group* group = &world;
    for (;;) {
      try {
        AgreeOnGeneration(*group);
        while (!Phase(*group)) Pause();
        group->Barrier();
        Report();
        return;
      } catch (const Error& error) {
        if (error.code() != MLXCOMM_RANK_LOST && error.code() != MLXCOMM_DAEMON_STOPPING) throw;
        PrintRaised(error, group);
      }
      ++generation_;
      Group shrunk = group->Shrink(kTimeout);
      shrunk.SetTimeout(kTimeout);
      std::printf("shrunk from %u to %u\n", group->size(), shrunk.size());
      rest.emplace(std::move(shrunk));
      group = &*rest;
    }
  }

 private:
  // Ranks that shrink may have seen different numbers of groups fail.
  void AgreeOnGeneration(Group& group) {
    generation_ = AllMax(group, generation_);
    phase_ = 0;
  }

  std::uint64_t AllMax(Group& group, std::uint64_t value) {
    Buffer buffer(connection_, sizeof value);
    *buffer.as<std::uint64_t>() = value;
    group.AllReduce(buffer.data(), buffer.data(), 1, MLXCOMM_UINT64, MLXCOMM_MAX);
    return *buffer.as<std::uint64_t>();
  }

  // Returns whether some rank wants to end.
  bool Phase(Group& group) {
    if (AllMax(group, std::filesystem::exists(stop_file_) ? 1 : 0) != 0) return true;
    Dice dice(Mixed(Mixed(seed_, generation_), phase_));
    ++phase_;
    switch (dice.Below(8)) {
      case 0:
      case 1: InParts(group, dice); break;
      case 2:
        operations_ +=
            ExchangeMessages(connection_, group, dice.Bytes(8, 1 << 20) / 8,
                             static_cast<std::uint32_t>(1 + dice.Below(4)), dice.Below(65521));
        break;
      case 3:
      case 4: Operations(group, dice, 1 + dice.Below(2), true); break;
      default: Operations(group, dice, 1 + dice.Below(12), false);
    }
    return false;
  }

  void Operations(Group& group, Dice& dice, std::uint64_t count, bool large) {
    std::vector<CheckedOperation> running;
    for (std::uint64_t i = 0; i < count; ++i) {
      running.emplace_back(connection_, group,
                           large ? DrawLarge(dice, group.size()) : DrawSmall(dice, group.size()));
    }
    for (CheckedOperation& one : running) bytes_ += one.Finish();
    operations_ += count;
  }

  // A part's error is printed; whether the whole group has failed as well shows in the next phase.
  void InParts(Group& group, Dice& dice) {
    const auto parts = static_cast<std::uint32_t>(1 + dice.Below(2));
    const std::uint64_t left_out = dice.Below(4) == 0 ? dice.Below(group.size()) : group.size();
    const bool nested = dice.Below(2) == 0;
    const std::int32_t color = group.rank() == left_out
                                   ? MLXCOMM_NO_GROUP
                                   : static_cast<std::int32_t>(group.rank() % parts);
    std::optional<Group> part, inner;
    try {
      part = group.Split(color, -static_cast<std::int32_t>(group.rank()), "part", kTimeout);
      if (!part.has_value()) return;
      Operations(*part, dice, 1 + dice.Below(4), false);
      if (!nested) return;
      inner = part->Split(static_cast<std::int32_t>(part->rank() / 2), 0, "inner", kTimeout);
      Operations(*inner, dice, 1, true);
    } catch (const Error& error) {
      PrintRaised(error, inner ? &*inner : part ? &*part : &group);
    }
  }

  void Report() const {
    std::printf("operations %llu bytes %llu\n", static_cast<unsigned long long>(operations_),
                static_cast<unsigned long long>(bytes_));
  }

  // Uses a small part of a core, and occasionally reports that it is still running.
  void Pause() {
    const double now = Now();
    if (now > reported_ + kReportEveryS) {
      reported_ = now;
      Report();
    }
    const double due = began_ + CpuSeconds() / kShareOfCore;
    std::this_thread::sleep_for(std::chrono::duration<double>(std::clamp(due - now, 0.0, 0.4)));
  }

  Connection& connection_;
  std::uint64_t seed_;
  std::string stop_file_;
  double began_ = Now();
  double reported_ = 0;
  std::uint64_t generation_ = 0;
  std::uint64_t phase_ = 0;
  std::uint64_t operations_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace

void DoMixedWork(Connection& connection, Group& world, std::uint64_t seed,
                 const std::string& stop_file) {
  world.SetTimeout(kTimeout);
  MixedWork(connection, seed, stop_file).Work(world);
}

}  // namespace mlxcomm::ground
