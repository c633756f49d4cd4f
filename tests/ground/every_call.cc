// Every call of the C++ interface, each result checked.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "tests/ground/checked_operation.h"
#include "tests/ground/tasks.h"

namespace mlxcomm::ground {
namespace {

// Each kind, type and operator, one after the other; then all of them in flight at once. If a plan
// is forced, only two types.
void EveryOperation(Connection& connection, Group& group, mlxcomm_plan plan, std::uint64_t most) {
  group.SetPlan(plan);
  std::vector<oracle::Operation> operations;
  for (int kind = 1; IsValid(static_cast<OperationKind>(kind)); ++kind) {
    const auto k = static_cast<OperationKind>(kind);
    if (IsPointToPoint(k) || IsEmpty(k)) continue;
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
  for (const oracle::Operation& o : operations) CheckedOperation(connection, group, o).Finish();
  std::vector<CheckedOperation> all;
  for (const oracle::Operation& o : operations) {
    all.emplace_back(connection, group, o);
    if (all.size() < 200) continue;
    for (CheckedOperation& one : all) one.Finish();
    all.clear();
  }
  for (CheckedOperation& one : all) one.Finish();
  group.SetPlan(MLXCOMM_PLAN_AUTOMATIC);
}

void Every(Connection& connection, Group& world) {
  kPlanKinds.ForEach([&](const PlanKindRow& plan) {
    EveryOperation(connection, world, static_cast<mlxcomm_plan>(plan.value), 70'001);
  });
}

void Messages(Connection& connection, Group& world) {
  ExchangeMessages(connection, world, 1, 40, 1);
  ExchangeMessages(connection, world, 25'000, 3, 2);
}

// Nested splits, one rank that does not take part, groups at work at the same time from several
// threads.
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

// The last rank dies; the others continue without it.
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
  } catch (const Error& error) {
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
  } catch (const Error& error) {
    std::printf("%s\n", error.what());
    const bool reported = error.code() == MLXCOMM_CANCELLED || error.code() == MLXCOMM_MISMATCH;
    Expect(reported, error.what());
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

// Ranks whose counts do not agree; every rank must get the error.
void UnequalCounts(Connection& connection, Group& world) {
  Buffer in(connection, 1 << 20), out(connection, 1 << 20);
  std::vector<std::uint64_t> send(world.size(), 1000), receive(world.size(), 1000);
  if (world.rank() == world.size() - 1) receive[0] = 30'000;  // Rank 0 sends 1000.
  try {
    world.AllToAllV(in.data(), out.data(), send.data(), receive.data(), MLXCOMM_INT32);
    world.Barrier();  // A rank whose own counts matched gets the error here.
    throw std::runtime_error("nobody noticed");
  } catch (const Error& error) {
    std::printf("%s\n", error.what());
    Expect(error.code() == MLXCOMM_MISMATCH, error.what());
  }
}

}  // namespace

bool DoEveryCall(const std::string& task, Connection& connection, Group& world) {
  static const std::map<std::string, void (*)(Connection&, Group&)> tasks = {
      {"every", Every},   {"messages", Messages}, {"groups", Groups}, {"cycles", Cycles},
      {"shrink", Shrink}, {"cancel", Cancel},     {"large", Large},   {"unequal", UnequalCounts}};
  const auto found = tasks.find(task);
  if (found == tasks.end()) return false;
  found->second(connection, world);
  return true;
}

}  // namespace mlxcomm::ground
