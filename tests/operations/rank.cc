// One rank on a real daemon: rank TASK RANK SIZE JOB. Each task checks its results against an
// oracle, prints "fine", and exits with 0.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "client/lib/mlxcomm.hpp"
#include "tests/ground/expected_result.h"

namespace {

using mlxcomm::Buffer;
using mlxcomm::Connection;
using mlxcomm::DataType;
using mlxcomm::Group;
using mlxcomm::OperationKind;
using mlxcomm::ReduceOperator;
using mlxcomm::Ticket;
namespace oracle = mlxcomm::oracle;

Connection Connect() {
  mlxcomm_connect_options options;
  mlxcomm_connect_options_init(&options);
  return Connection(options);
}

void Expect(bool fine, const std::string& what) {
  if (!fine) throw std::runtime_error(what);
}

Ticket Begin(Group& group, const oracle::Operation& o, const void* in, void* out) {
  const std::uint64_t* const table = o.tables.empty() ? nullptr : o.tables[group.rank()].data();
  mlxcomm_request request{};
  request.kind = static_cast<mlxcomm_kind>(o.kind);
  request.type = static_cast<mlxcomm_data_type>(o.type);
  request.op = static_cast<mlxcomm_operator>(o.op);
  request.peer = o.root;
  request.input = in;
  request.output = out;
  request.count = o.count;
  request.counts = table;
  request.receive_counts = table == nullptr ? nullptr : table + o.size;
  return group.Submit(request);
}

struct Running {
  oracle::Operation operation;
  Buffer in;
  Buffer out;
  Ticket ticket;
};

Running Start(Connection& connection, Group& group, oracle::Operation o) {
  oracle::AddTables(o);
  const std::size_t width = mlxcomm::DataTypeBytes(o.type);
  const mlxcomm::OperationShape shape = o.ShapeFor(group.rank());
  const oracle::Bytes input = oracle::Input(o.type, o.op, group.rank(), shape.input_elements);
  Buffer in(connection, std::max<std::uint64_t>(input.size(), 1));
  Buffer out(connection, std::max<std::uint64_t>(shape.output_elements * width, 1));
  if (!input.empty()) std::memcpy(in.data(), input.data(), input.size());
  Ticket ticket = Begin(group, o, in.data(), out.data());
  return {o, std::move(in), std::move(out), std::move(ticket)};
}

void Finish(Running& running, std::uint32_t rank) {
  running.ticket.Wait();
  const oracle::Operation& o = running.operation;
  const std::size_t bytes = o.ShapeFor(rank).output_elements * mlxcomm::DataTypeBytes(o.type);
  const auto* const data = running.out.as<std::byte>();
  const std::int64_t wrong = oracle::FirstWrong(o, rank, oracle::Bytes(data, data + bytes));
  Expect(wrong == -1, std::string(OperationKindName(o.kind)) + " " + ReduceOperatorName(o.op) +
                          " " + DataTypeName(o.type) + "[" + std::to_string(o.count) + "] root " +
                          std::to_string(o.root) + ": element " + std::to_string(wrong) +
                          " is wrong");
}

// Each kind, type and operator, one after the other; then all of them in flight at once. Where a
// plan is forced, only two types.
void EveryOperation(Connection& connection, Group& group, mlxcomm_plan plan, std::uint64_t most) {
  group.SetPlan(plan);
  std::vector<oracle::Operation> operations;
  for (int kind = 1; mlxcomm::IsValid(static_cast<OperationKind>(kind)); ++kind) {
    const auto k = static_cast<OperationKind>(kind);
    if (mlxcomm::IsPointToPoint(k) || mlxcomm::IsEmpty(k)) continue;
    for (int type = 1; type <= static_cast<int>(DataType::kComplex64); ++type) {
      for (int op = 0; op <= static_cast<int>(ReduceOperator::kMean); ++op) {
        const auto t = static_cast<DataType>(type);
        const auto o = static_cast<ReduceOperator>(op);
        const bool common = t == DataType::kFloat16 || t == DataType::kInt32;
        if (plan != MLXCOMM_PLAN_AUTOMATIC && !common) continue;
        if (Reduces(k) == (op == 0) || !HasMeaning(t, o) || (!Reduces(k) && op != 0)) continue;
        operations.push_back(
            {k, t, o, 301, group.size(), (static_cast<std::uint32_t>(type)) % group.size(), {}});
      }
    }
    for (const std::uint64_t count :
         {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{4099}, most}) {
      operations.push_back({k,
                            DataType::kInt32,
                            Reduces(k) ? ReduceOperator::kSum : ReduceOperator::kNone,
                            count,
                            group.size(),
                            0,
                            {}});
    }
  }
  std::vector<Running> all;
  for (const oracle::Operation& o : operations) {
    Running running = Start(connection, group, o);
    Finish(running, group.rank());
  }
  for (const oracle::Operation& o : operations) {
    all.push_back(Start(connection, group, o));
    if (all.size() < 200) continue;
    for (Running& running : all) Finish(running, group.rank());
    all.clear();
  }
  for (Running& running : all) Finish(running, group.rank());
  group.SetPlan(MLXCOMM_PLAN_AUTOMATIC);
}

void Every(Connection& connection, Group& world) {
  mlxcomm::kPlanKinds.ForEach([&](const mlxcomm::PlanKindRow& plan) {
    EveryOperation(connection, world, static_cast<mlxcomm_plan>(plan.value), 70'001);
  });
}

// Every rank to every other, small and large, with tags in the opposite order at the receiver.
void Messages(Connection& connection, Group& world) {
  constexpr std::uint32_t kTags = 40;
  for (const std::uint64_t count : {1u, 50'000u}) {
    std::vector<Buffer> buffers;
    std::vector<Ticket> tickets;
    struct Expected {
      const std::int32_t* data;
      std::int32_t value;
    };
    std::vector<Expected> expected;
    const std::uint32_t tags = count == 1 ? kTags : 3;
    for (std::uint32_t peer = 0; peer < world.size(); ++peer) {
      if (peer == world.rank()) continue;
      for (std::uint32_t tag = 0; tag < tags; ++tag) {
        buffers.emplace_back(connection, count * 4);
        auto* const data = buffers.back().as<std::int32_t>();
        for (std::uint64_t i = 0; i < count; ++i) {
          data[i] = static_cast<std::int32_t>(world.rank() * 1000 + tag);
        }
        tickets.push_back(world.SendAsync(data, count, MLXCOMM_INT32, peer, tag));
      }
    }
    for (std::uint32_t peer = 0; peer < world.size(); ++peer) {
      if (peer == world.rank()) continue;
      for (std::uint32_t tag = tags; tag-- > 0;) {
        buffers.emplace_back(connection, count * 4);
        auto* const data = buffers.back().as<std::int32_t>();
        tickets.push_back(world.ReceiveAsync(data, count, MLXCOMM_INT32, peer, tag));
        expected.push_back({data, static_cast<std::int32_t>(peer * 1000 + tag)});
      }
    }
    for (Ticket& ticket : tickets) ticket.Wait();
    for (const Expected& e : expected) {
      Expect(e.data[0] == e.value && e.data[count - 1] == e.value, "a message is wrong");
    }
  }
}

// Nested splits, one rank that takes no part, groups at work at the same time from
// several threads.
void Groups(Connection& connection, Group& world) {
  auto row = world.Split(static_cast<int>(world.rank() % 2), 0, "rows");
  auto reversed = world.Split(0, -static_cast<int>(world.rank()), "reversed");
  Expect(row->name().find("rows") != std::string::npos, "name " + row->name());
  Expect(reversed->rank() == world.size() - 1 - world.rank(), "the key does not order");
  auto some = world.Split(world.rank() == 0 ? MLXCOMM_NO_GROUP : 7);
  Expect(some.has_value() == (world.rank() != 0), "a rank without color has a group");
  auto single = row->Split(static_cast<int>(row->rank()));
  Expect(single->size() == 1, "a color of one rank");
  EveryOperation(connection, *single, MLXCOMM_PLAN_AUTOMATIC, 1000);
  std::vector<std::exception_ptr> thrown(3);
  std::vector<std::thread> threads;
  std::vector<Group*> at_once = {&*row, &*reversed, some ? &*some : nullptr};
  for (std::size_t i = 0; i < at_once.size(); ++i) {
    if (at_once[i] == nullptr) continue;
    threads.emplace_back([&, i] {
      try {
        EveryOperation(connection, *at_once[i], MLXCOMM_PLAN_AUTOMATIC, 20'001);
      } catch (...) {
        thrown[i] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : thrown) {
    if (error) std::rethrow_exception(error);
  }
}

// Made, used, closed, repeatedly.
void Cycles(Connection& connection, Group& world) {
  Buffer buffer(connection, 64);
  for (int i = 0; i < 2000; ++i) {
    auto part = world.Split(0, 0, "cycle");
    *buffer.as<std::int32_t>() = 1;
    part->AllReduce(buffer.data(), buffer.data(), 1, MLXCOMM_INT32);
    Expect(*buffer.as<std::int32_t>() == static_cast<std::int32_t>(part->size()), "sum");
  }
}

// The last rank dies; the others go on without it.
void Shrink(Connection& connection, Group& world) {
  Buffer buffer(connection, 64);
  auto* const value = buffer.as<std::int32_t>();
  *value = 1;
  world.AllReduce(value, value, 1, MLXCOMM_INT32);
  const std::uint32_t last = world.size() - 1;
  // When an operation has ended here, the others may still be in the middle of it, but not of an
  // operation before a barrier that has ended.
  if (world.rank() == last) {
    world.Barrier();
    std::printf("dying\n");
    std::fflush(stdout);
    std::abort();
  }
  try {
    world.Barrier();
    world.Barrier();
    throw std::runtime_error("the barrier ended without the last rank");
  } catch (const mlxcomm::Error& error) {
    Expect(error.code() == MLXCOMM_RANK_LOST && error.rank() == static_cast<int>(last),
           error.what());
  }
  Group rest = world.Shrink();
  Expect(rest.size() == last && rest.rank() == world.rank(), "the rest is not in the old order");
  EveryOperation(connection, rest, MLXCOMM_PLAN_AUTOMATIC, 20'001);
  auto half = rest.Split(0);
  half->Barrier();
  std::printf("group %s of %u\n", rest.name().c_str(), rest.size());
}

// Rank 0 gives up an operation that the others never joined: all get an error that names it.
void Cancel(Connection& connection, Group& world) {
  Buffer buffer(connection, 64);
  auto part = world.Split(0, 0, "given_up");
  world.Barrier();
  try {
    if (world.rank() == 0) {
      Ticket ticket = part->AllReduceAsync(buffer.data(), buffer.data(), 1, MLXCOMM_INT32);
      Expect(!ticket.Test(), "it ended alone");
      Expect(ticket.Cancel(), "it was not given up");
    } else {
      part->Barrier(std::uint64_t{60} * 1'000'000'000);
    }
    part->CheckWorks();
    throw std::runtime_error("nobody heard of the cancel");
  } catch (const mlxcomm::Error& error) {
    std::printf("%s\n", error.what());
    const bool told = error.code() == MLXCOMM_CANCELLED || error.code() == MLXCOMM_MISMATCH;
    Expect(told, error.what());
  }
  world.Barrier();  // Another group of the same ranks still works.
}

// More than 2^32 bytes at once; pages that were never written read as zero.
void Large(Connection& connection, Group& world) {
  constexpr std::uint64_t kBytes = (std::uint64_t{1} << 32) + 4099;
  Buffer buffer(connection, kBytes);
  auto* const data = buffer.as<unsigned char>();
  const std::uint64_t marks[] = {
      0,         5, std::uint64_t{1} << 31, (std::uint64_t{1} << 32) - 1, std::uint64_t{1} << 32,
      kBytes - 1};
  if (world.rank() == 0) {
    for (const std::uint64_t mark : marks) data[mark] = static_cast<unsigned char>(mark % 251 + 1);
    world.Send(data, kBytes, MLXCOMM_UINT8, 1);
    return;
  }
  world.Receive(data, kBytes, MLXCOMM_UINT8, 0);
  for (const std::uint64_t mark : marks) {
    Expect(data[mark] == mark % 251 + 1, "byte " + std::to_string(mark));
    if (mark % 2 == 1) Expect(data[mark - 1] == 0, "byte before " + std::to_string(mark));
  }
}

// After the first round it prints "goes on": everything that is made at first use exists then.
constexpr int kForever = 1 << 30;
void SayThatItGoesOn(int round) {
  if (round != 0) return;
  std::printf("goes on\n");
  std::fflush(stdout);
}

// Of 16 MiB.
void Sums(Connection& connection, Group& world, int rounds) {
  constexpr std::uint64_t kCount = 4 << 20;
  Buffer in(connection, kCount * 4), out(connection, kCount * 4);
  const auto ranks = static_cast<std::int32_t>(world.size());
  for (int round = 0; round < rounds; ++round) {
    for (std::uint64_t i = 0; i < kCount; ++i) {
      in.as<std::int32_t>()[i] = static_cast<std::int32_t>(i % 1000 + world.rank()) + round;
    }
    world.AllReduce(in.data(), out.data(), kCount, MLXCOMM_INT32, MLXCOMM_SUM);
    for (std::uint64_t i = 0; i < kCount; ++i) {
      const auto wanted =
          (static_cast<std::int32_t>(i % 1000) + round) * ranks + ranks * (ranks - 1) / 2;
      Expect(out.as<std::int32_t>()[i] == wanted, "element " + std::to_string(i));
    }
    SayThatItGoesOn(round);
  }
}

// 16 MiB from each rank to the next.
void Sends(Connection& connection, Group& world, int rounds) {
  constexpr std::uint64_t kBytes = 16 << 20;
  Buffer out(connection, kBytes), in(connection, kBytes);
  const std::uint32_t next = (world.rank() + 1) % world.size();
  const std::uint32_t before = (world.rank() + world.size() - 1) % world.size();
  for (int round = 0; round < rounds; ++round) {
    std::memset(out.data(), static_cast<int>(world.rank()) + 7 * round, kBytes);
    Ticket sent = world.SendAsync(out.data(), kBytes, MLXCOMM_UINT8, next, 1);
    Ticket received = world.ReceiveAsync(in.data(), kBytes, MLXCOMM_UINT8, before, 1);
    sent.Wait();
    received.Wait();
    const auto wanted = static_cast<unsigned char>(static_cast<int>(before) + 7 * round);
    for (std::uint64_t i = 0; i < kBytes; ++i) {
      Expect(in.as<unsigned char>()[i] == wanted, "byte " + std::to_string(i));
    }
    SayThatItGoesOn(round);
  }
}

void SumsForever(Connection& connection, Group& world) { Sums(connection, world, kForever); }
void SendsForever(Connection& connection, Group& world) { Sends(connection, world, kForever); }
void SomeSums(Connection& connection, Group& world) { Sums(connection, world, 4); }

// Ranks whose counts do not agree; every rank must get the error.
void UnequalCounts(Connection& connection, Group& world) {
  Buffer in(connection, 1 << 20), out(connection, 1 << 20);
  std::vector<std::uint64_t> send(world.size(), 1000), receive(world.size(), 1000);
  if (world.rank() == world.size() - 1) receive[0] = 30'000;  // Rank 0 sends 1000.
  try {
    world.AllToAllV(in.data(), out.data(), send.data(), receive.data(), MLXCOMM_INT32);
    world.Barrier();  // A rank whose own counts matched gets the error here.
    throw std::runtime_error("nobody noticed");
  } catch (const mlxcomm::Error& error) {
    std::printf("%s\n", error.what());
    Expect(error.code() == MLXCOMM_MISMATCH, error.what());
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, std::function<void(Connection&, Group&)>> tasks = {
      {"every", Every},
      {"messages", Messages},
      {"groups", Groups},
      {"cycles", Cycles},
      {"shrink", Shrink},
      {"cancel", Cancel},
      {"large", Large},
      {"unequal", UnequalCounts},
      {"sums", SomeSums},
      {"sums forever", SumsForever},
      {"sends forever", SendsForever}};
  if (argc != 5 || !tasks.contains(argv[1])) {
    std::fprintf(stderr, "usage: %s TASK RANK SIZE JOB\n", argv[0]);
    return 2;
  }
  try {
    Connection connection = Connect();
    Group world(connection, argv[4], static_cast<std::uint32_t>(std::atoi(argv[2])),
                static_cast<std::uint32_t>(std::atoi(argv[3])));
    tasks.at(argv[1])(connection, world);
    std::printf("fine\n");
    return 0;
  } catch (const std::exception& error) {
    std::printf("failed: %s\n", error.what());
    return 1;
  }
}
