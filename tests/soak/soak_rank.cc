// One rank of the soak: soak_rank RANK SIZE JOB SEED SHARE STOP_FILE [PLANTED].
//
// It joins the job and works in phases until some rank sees the stop file. What a phase does follows from
// the seed: operations of every kind and type in flight at once, messages, splits and their parts. Every
// byte of every result is compared with the oracle's, and the bytes behind a result must be untouched.
// When a rank is lost, the others shrink the group and go on. It uses SHARE of a core at most, pausing
// between phases.
//
// Each line begins with a word and the monotonic clock's time; watch.py reads them. The exit code is 0 at an
// orderly end, 3 after an error that ended the work, 1 after a wrong byte. PLANTED makes it go wrong:
// wrong-byte changes a result before it is compared, hang stops calling.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

#include "client/lib/mlxcomm.hpp"
#include "tests/ground/expected_result.h"

namespace {

using mlxcomm::Buffer;
using mlxcomm::Connection;
using mlxcomm::DataType;
using mlxcomm::Error;
using mlxcomm::Group;
using mlxcomm::OperationKind;
using mlxcomm::ReduceOperator;
using mlxcomm::Ticket;
namespace oracle = mlxcomm::oracle;

constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr std::uint64_t kOperationTimeout = 30 * kSecond;  // rules.py has the same.
constexpr std::uint64_t kJoinTimeout = 30 * kSecond;
constexpr std::uint64_t kOracleBytesMax =
    32 << 10;  // What is larger has values that are checked faster.
constexpr std::uint64_t kBytesMax = 4 << 20;
constexpr std::size_t kGuardBytes = 64;
constexpr auto kGuard = std::byte{0xa5};
constexpr int kPlantedPhase = 4;

double SecondsOf(clockid_t clock) {
  timespec read{};
  ::clock_gettime(clock, &read);
  return static_cast<double>(read.tv_sec) + static_cast<double>(read.tv_nsec) / 1e9;
}

double Now() { return SecondsOf(CLOCK_MONOTONIC); }  // times.py reads the same clock.
double CpuSeconds() { return SecondsOf(CLOCK_PROCESS_CPUTIME_ID); }

class WrongByte : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Orders {
  std::string job;
  std::uint64_t seed = 0;
  double share = 0.05;
  std::string stop_file;
  std::string planted;
};

std::uint64_t Mixed(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = a * 0x9e3779b97f4a7c15 + b;
  x = (x ^ (x >> 31)) * 0xbf58476d1ce4e5b9;
  return x ^ (x >> 29);
}

// The values of large payloads, of uint64: a sum over all ranks is then simple.
std::uint64_t LargeValue(std::uint64_t salt, std::uint64_t rank, std::uint64_t i) {
  return Mixed(salt, i) + rank * (i + 1);
}

std::uint64_t LargeExpected(const oracle::Operation& o, std::uint32_t rank, std::uint64_t i) {
  const oracle::Origin origin = oracle::OriginOf(o, rank, i);
  if (!origin.all_ranks) return LargeValue(o.salt, origin.rank, origin.element);
  const std::uint64_t n = o.size;
  return n * Mixed(o.salt, origin.element) + n * (n - 1) / 2 * (origin.element + 1);
}

std::string Described(const oracle::Operation& o) {
  return std::string(OperationKindName(o.kind)) + " " + ReduceOperatorName(o.op) + " " +
         DataTypeName(o.type) + "[" + std::to_string(o.count) + "] of " + std::to_string(o.size) +
         " ranks, root " + std::to_string(o.root) + ", salt " + std::to_string(o.salt);
}

// An operation in flight, with its buffers. Point-to-point: `peer` sends it the same count.
class Running {
 public:
  Running(Connection& connection, Group& group, oracle::Operation o)
      : operation_(std::move(o)), rank_(group.rank()), is_large_(IsLarge(operation_)) {
    oracle::AddTables(operation_);
    const std::size_t width = mlxcomm::DataTypeBytes(operation_.type);
    const mlxcomm::OperationShape shape = operation_.ShapeFor(rank_);
    bytes_ = shape.output_elements * width;
    in_.emplace(connection, std::max<std::uint64_t>(shape.input_elements * width, 1));
    out_.emplace(connection, bytes_ + kGuardBytes);
    Fill(shape.input_elements);
    std::memset(out_->data(), static_cast<int>(kGuard), bytes_ + kGuardBytes);
    ticket_.emplace(Begin(group));
  }

  std::uint64_t Finish(bool spoil) {
    ticket_->Wait();
    auto* const out = out_->as<std::byte>();
    if (spoil && bytes_ > 0) out[bytes_ / 2] ^= std::byte{0x10};
    const std::int64_t wrong = FirstWrong(out);
    if (wrong >= 0) {
      throw WrongByte("rank " + std::to_string(rank_) + ": " + Described(operation_) +
                      ": element " + std::to_string(wrong) + " is wrong");
    }
    for (std::size_t i = 0; i < kGuardBytes; ++i) {
      if (out[bytes_ + i] != kGuard) {
        throw WrongByte("rank " + std::to_string(rank_) + ": " + Described(operation_) + ": byte " +
                        std::to_string(i) + " behind the result was written");
      }
    }
    return bytes_;
  }

 private:
  static bool IsLarge(const oracle::Operation& o) {
    return o.type == DataType::kUint64 && o.count * 8 > kOracleBytesMax;
  }

  void Fill(std::uint64_t elements) {
    if (!is_large_) {
      const oracle::Bytes input =
          oracle::Input(operation_.type, operation_.op, rank_, elements, operation_.salt);
      if (!input.empty()) std::memcpy(in_->data(), input.data(), input.size());
      return;
    }
    auto* const in = in_->as<std::uint64_t>();
    for (std::uint64_t i = 0; i < elements; ++i) in[i] = LargeValue(operation_.salt, rank_, i);
  }

  std::int64_t FirstWrong(const std::byte* out) const {
    if (!is_large_) return oracle::FirstWrong(operation_, rank_, oracle::Bytes(out, out + bytes_));
    for (std::uint64_t i = 0; i < bytes_ / 8; ++i) {
      if (oracle::Get<std::uint64_t>(out + i * 8) != LargeExpected(operation_, rank_, i)) {
        return static_cast<std::int64_t>(i);
      }
    }
    return -1;
  }

  Ticket Begin(Group& group) {
    const oracle::Operation& o = operation_;
    const std::uint64_t* const table = o.tables.empty() ? nullptr : o.tables[rank_].data();
    mlxcomm_request request{};
    request.kind = static_cast<mlxcomm_kind>(o.kind);
    request.type = static_cast<mlxcomm_data_type>(o.type);
    request.op = static_cast<mlxcomm_operator>(o.op);
    request.peer = o.root;
    request.input = in_->data();
    request.output = out_->data();
    request.count = o.count;
    request.counts = table;
    request.receive_counts = table == nullptr ? nullptr : table + o.size;
    return group.Submit(request);
  }

  oracle::Operation operation_;
  std::uint32_t rank_;
  bool is_large_;
  std::uint64_t bytes_ = 0;
  // Of the members the ticket ends first, for its buffers belong to it until then.
  std::optional<Buffer> in_;
  std::optional<Buffer> out_;
  std::optional<Ticket> ticket_;
};

// What the seed says next; the same on all ranks of a group.
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
  } while (mlxcomm::IsPointToPoint(o.kind));
  do {
    o.type = static_cast<DataType>(1 + dice.Below(14));
    o.op = Reduces(o.kind) ? static_cast<ReduceOperator>(1 + dice.Below(7)) : ReduceOperator::kNone;
  } while (Reduces(o.kind) && !HasMeaning(o.type, o.op));
  if (!mlxcomm::IsEmpty(o.kind)) {
    o.count = dice.Bytes(8, kOracleBytesMax) / mlxcomm::DataTypeBytes(o.type);
    if (dice.Below(16) == 0) o.count = 0;
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
  o.count = dice.Bytes(kOracleBytesMax + 8, kBytesMax / size) / 8;
  o.size = size;
  o.root = static_cast<std::uint32_t>(dice.Below(size));
  o.salt = dice.Below(65521);
  return o;
}

class Worker {
 public:
  Worker(Connection& connection, Orders orders)
      : connection_(connection), orders_(std::move(orders)) {
    cpu_began_ = CpuSeconds();
    began_ = Now();
  }

  // Until the end that all agree on. Throws what cannot be gone on after.
  void Work(Group world) {
    std::optional<Group> group(std::move(world));
    for (;;) {
      try {
        AgreeOnGeneration(*group);
        while (!Phase(*group)) Pause();
        group->Barrier();
        return;
      } catch (const Error& error) {
        Tell(error, *group, "operation");
        // Where another node's daemon stops, the ranks elsewhere can go on.
        if (error.code() != MLXCOMM_RANK_LOST && error.code() != MLXCOMM_DAEMON_STOPPING) throw;
      }
      group.emplace(Shrunk(*group));
    }
  }

  void Report(const char* word) const {
    std::printf("%s %.6f phases %d operations %llu bytes %llu longest %.3f\n", word, Now(), phases_,
                static_cast<unsigned long long>(operations_),
                static_cast<unsigned long long>(bytes_), longest_);
  }

  static void Tell(const Error& error, const Group& group, const char* stage) {
    const bool is_named =
        error.rank() >= 0 && static_cast<std::uint32_t>(error.rank()) < group.size();
    const Group::Member culprit =
        is_named ? group.member(static_cast<std::uint32_t>(error.rank())) : Group::Member{};
    std::printf("raised %.6f %s stage %s culprit %s %llu group %s size %u | %s\n", Now(),
                mlxcomm_code_name(error.code()), stage,
                culprit.node.empty() ? "-" : culprit.node.c_str(),
                static_cast<unsigned long long>(culprit.pid), group.name().c_str(), group.size(),
                error.what());
  }

 private:
  Group Shrunk(Group& group) {
    ++generation_;
    try {
      Group rest = group.Shrink(kOperationTimeout);
      rest.SetTimeout(kOperationTimeout);
      std::printf("shrunk %.6f from %u to %u\n", Now(), group.size(), rest.size());
      return rest;
    } catch (const Error& error) {
      Tell(error, group, "shrink");
      throw;
    }
  }

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

  // True: some rank wants to end.
  bool Phase(Group& group) {
    if (AllMax(group, std::filesystem::exists(orders_.stop_file) ? 1 : 0) != 0) return true;
    Dice dice(Mixed(Mixed(orders_.seed, generation_), phase_));
    ++phase_;
    ++phases_;
    if (orders_.planted == "hang" && phases_ == kPlantedPhase) {
      for (;;) ::pause();
    }
    switch (dice.Below(8)) {
      case 0:
      case 1: InParts(group, dice); break;
      case 2: Messages(group, dice); break;
      case 3:
      case 4: Operations(group, dice, 1 + dice.Below(2), true); break;
      default: Operations(group, dice, 1 + dice.Below(12), false);
    }
    return false;
  }

  void Operations(Group& group, Dice& dice, std::uint64_t count, bool large) {
    std::vector<Running> running;
    running.reserve(count);
    const double began = Now();
    for (std::uint64_t i = 0; i < count; ++i) {
      running.emplace_back(connection_, group,
                           large ? DrawLarge(dice, group.size()) : DrawSmall(dice, group.size()));
    }
    const bool spoil = orders_.planted == "wrong-byte" && phases_ >= kPlantedPhase;
    for (Running& one : running) bytes_ += one.Finish(spoil);
    operations_ += count;
    longest_ = std::max(longest_, Now() - began);
  }

  // To the next ranks, with tags in the opposite order at the receiver.
  void Messages(Group& group, Dice& dice) {
    const std::uint32_t size = group.size(), rank = group.rank();
    if (size < 2) return;
    const auto step = static_cast<std::uint32_t>(1 + dice.Below(size - 1));
    const std::uint64_t count = dice.Bytes(8, 1 << 20) / 8;
    const std::uint64_t salt = dice.Below(65521);
    const auto tags = static_cast<std::uint32_t>(1 + dice.Below(4));
    const std::uint32_t to = (rank + step) % size, from = (rank + size - step) % size;
    std::vector<Buffer> buffers;
    std::vector<Ticket> tickets;  // Goes before the buffers.
    const double began = Now();
    for (std::uint32_t tag = 0; tag < tags; ++tag) {
      buffers.emplace_back(connection_, count * 8);
      auto* const data = buffers.back().as<std::uint64_t>();
      for (std::uint64_t i = 0; i < count; ++i) data[i] = LargeValue(salt + tag, rank, i);
      tickets.push_back(group.SendAsync(data, count, MLXCOMM_UINT64, to, tag));
    }
    for (std::uint32_t tag = tags; tag-- > 0;) {
      buffers.emplace_back(connection_, count * 8);
      tickets.push_back(
          group.ReceiveAsync(buffers.back().data(), count, MLXCOMM_UINT64, from, tag));
    }
    for (Ticket& ticket : tickets) ticket.Wait();
    for (std::uint32_t k = 0; k < tags; ++k) {
      const auto* const data = buffers[tags + k].as<std::uint64_t>();
      for (std::uint64_t i = 0; i < count; ++i) {
        if (data[i] == LargeValue(salt + (tags - 1 - k), from, i)) continue;
        throw WrongByte("message from rank " + std::to_string(from) + ", tag " +
                        std::to_string(tags - 1 - k) + ": element " + std::to_string(i) +
                        " is wrong");
      }
      bytes_ += count * 8;
    }
    operations_ += 2 * tags;
    longest_ = std::max(longest_, Now() - began);
  }

  // A part's error is printed; whether the whole group has failed as well shows in the next phase.
  void InParts(Group& group, Dice& dice) {
    const auto parts = static_cast<std::uint32_t>(1 + dice.Below(2));
    const std::uint64_t left_out = dice.Below(4) == 0 ? dice.Below(group.size()) : group.size();
    const bool nested = dice.Below(2) == 0;
    const std::int32_t color = group.rank() == left_out
                                   ? MLXCOMM_NO_GROUP
                                   : static_cast<std::int32_t>(group.rank() % parts);
    std::optional<Group> part;
    try {
      part =
          group.Split(color, -static_cast<std::int32_t>(group.rank()), "part", kOperationTimeout);
    } catch (const Error& error) {
      Tell(error, group, "split");
    }
    if (!part.has_value()) return;
    try {
      Operations(*part, dice, 1 + dice.Below(4), false);
      if (nested) InInnerPart(*part, dice);
    } catch (const Error& error) {
      Tell(error, *part, "part");
    }
  }

  // An error names a rank of the group that it comes from.
  void InInnerPart(Group& part, Dice& dice) {
    auto inner =
        part.Split(static_cast<std::int32_t>(part.rank() / 2), 0, "inner", kOperationTimeout);
    try {
      Operations(*inner, dice, 1, true);
    } catch (const Error& error) {
      Tell(error, *inner, "part");
    }
  }

  void Pause() {
    const double now = Now();
    if (now > told_ + 1) {
      told_ = now;
      Report("at");
    }
    const double due = began_ + (CpuSeconds() - cpu_began_) / orders_.share;
    std::this_thread::sleep_for(std::chrono::duration<double>(std::clamp(due - now, 0.0, 0.4)));
  }

  Connection& connection_;
  Orders orders_;
  double cpu_began_ = 0;
  double began_ = 0;
  double told_ = 0;
  double longest_ = 0;
  std::uint64_t generation_ = 0;
  std::uint64_t phase_ = 0;
  int phases_ = 0;
  std::uint64_t operations_ = 0;
  std::uint64_t bytes_ = 0;
};

int Run(std::uint32_t rank, std::uint32_t size, const Orders& orders) {
  mlxcomm_connect_options options;
  mlxcomm_connect_options_init(&options);
  std::optional<Connection> connection;
  std::optional<Group> world;
  const char* stage = "connect";
  try {
    connection.emplace(options);
    stage = "join";
    world.emplace(*connection, orders.job, rank, size, kJoinTimeout);
  } catch (const Error& error) {
    std::printf("raised %.6f %s stage %s culprit - 0 group %s size %u | %s\n", Now(),
                mlxcomm_code_name(error.code()), stage, orders.job.c_str(), size, error.what());
    return 3;
  }
  world->SetTimeout(kOperationTimeout);
  std::printf("joined %.6f\n", Now());
  Worker worker(*connection, orders);
  worker.Work(*std::exchange(world, std::nullopt));
  worker.Report("fine");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 7) {
    std::fprintf(stderr, "usage: %s RANK SIZE JOB SEED SHARE STOP_FILE [PLANTED]\n", argv[0]);
    return 2;
  }
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  std::printf("pid %.6f %ld\n", Now(), static_cast<long>(::getpid()));
  Orders orders{argv[3], std::stoull(argv[4]), std::stod(argv[5]), argv[6],
                argc > 7 ? argv[7] : ""};
  try {
    return Run(static_cast<std::uint32_t>(std::atoi(argv[1])),
               static_cast<std::uint32_t>(std::atoi(argv[2])), orders);
  } catch (const Error&) {
    return 3;  // It was printed where it came.
  } catch (const std::exception& error) {
    std::printf("wrong %.6f %s\n", Now(), error.what());
    return 1;
  }
}
