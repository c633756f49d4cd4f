// Every operation through the C interface: its request to the daemon, the arguments that it
// refuses, and what a group of one rank does locally.
#include <gmock/gmock.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "client/lib/mlxcomm.h"
#include "tests/unit/client/lib/session_fixture.h"

namespace mlxcomm::client::operations_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::array<std::uint64_t, 3> kCounts = {5, 0, 2};
constexpr std::array<std::uint64_t, 3> kSent = {1, 4, 2};
constexpr std::array<std::uint64_t, 3> kReceived = {3, 4, 0};

struct Buffers {
  void* input;
  void* output;
};
using Call =
    std::function<mlxcomm_code(mlxcomm_group*, Buffers, std::uint64_t* ticket, mlxcomm_error*)>;
struct Operation {
  OperationKind kind;
  Call call;                     // For 3 ranks: 6 elements of float32, root 1, peer 2, tag 9.
  std::uint64_t input_elements;  // For rank 1 of 3.
  std::uint64_t output_elements;
  bool has_root = false;
  bool in_place = false;
};

constexpr auto kFloat = MLXCOMM_FLOAT32;
using Group = mlxcomm_group*;
using Ticket = std::uint64_t*;
using Error = mlxcomm_error*;

// The C functions with everything except group and buffers filled in.
std::vector<Operation> ToAllOrOne() {
  return {
      {OperationKind::kAllReduce,
       [](Group g, Buffers b, Ticket t, Error e) {
         return mlxcomm_all_reduce(g, b.input, b.output, 6, kFloat, MLXCOMM_MAX, 0, t, e);
       },
       6, 6, false, true},
      {OperationKind::kReduce,
       [](Group g, Buffers b, Ticket t, Error e) {
         return mlxcomm_reduce(g, b.input, b.output, 6, kFloat, MLXCOMM_MEAN, 1, 0, t, e);
       },
       6, 6, true, true},
      {OperationKind::kReduceScatter,
       [](Group g, Buffers b, Ticket t, Error e) {
         return mlxcomm_reduce_scatter(g, b.input, b.output, 6, kFloat, MLXCOMM_PROD, 0, t, e);
       },
       18, 6},
      {OperationKind::kBroadcast,
       [](Group g, Buffers b, Ticket t, Error e) {
         return mlxcomm_broadcast(g, b.input, b.output, 6, kFloat, 1, 0, t, e);
       },
       6, 6, true, true},
  };
}

std::vector<Operation> FromEachToEach() {
  return {
      {OperationKind::kAllGather,
       [](Group g, Buffers b, Ticket t, Error e) {
         return mlxcomm_all_gather(g, b.input, b.output, 6, kFloat, 0, t, e);
       },
       6, 18},
      {OperationKind::kAllGatherV,
       [](Group g, Buffers b, Ticket t, Error e) {
         return mlxcomm_all_gather_v(g, b.input, b.output, kCounts.data(), kFloat, 0, t, e);
       },
       0, 7},
      {OperationKind::kGather,
       [](Group g, Buffers b, Ticket t, Error e) {
         return mlxcomm_gather(g, b.input, b.output, 6, kFloat, 1, 0, t, e);
       },
       6, 18, true},
      {OperationKind::kScatter,
       [](Group g, Buffers b, Ticket t, Error e) {
         return mlxcomm_scatter(g, b.input, b.output, 6, kFloat, 1, 0, t, e);
       },
       18, 6, true},
      {OperationKind::kAllToAll,
       [](Group g, Buffers b, Ticket t, Error e) {
         return mlxcomm_all_to_all(g, b.input, b.output, 6, kFloat, 0, t, e);
       },
       18, 18},
      {OperationKind::kAllToAllV,
       [](Group g, Buffers b, Ticket t, Error e) {
         return mlxcomm_all_to_all_v(g, b.input, b.output, kSent.data(), kReceived.data(), kFloat,
                                     0, t, e);
       },
       7, 7},
      {OperationKind::kSend,
       [](Group g, Buffers b, Ticket t, Error e) {
         return mlxcomm_send(g, b.input, 6, kFloat, 2, 9, 0, t, e);
       },
       6, 0},
      {OperationKind::kReceive,
       [](Group g, Buffers b, Ticket t, Error e) {
         return mlxcomm_recv(g, b.output, 6, kFloat, 2, 9, 0, t, e);
       },
       0, 6},
      {OperationKind::kBarrier,
       [](Group g, Buffers, Ticket t, Error e) { return mlxcomm_barrier(g, 0, t, e); }, 0, 0},
  };
}

std::vector<Operation> Operations() {
  std::vector<Operation> all = ToAllOrOne();
  for (Operation& operation : FromEachToEach()) all.push_back(std::move(operation));
  return all;
}

class OperationsTest : public SessionTest {
 protected:
  OperationsTest() : SessionTest(1, 3) {
    arena_start();
    input = Allocate(18 * sizeof(float));
    output = Allocate(18 * sizeof(float));
  }
  struct Wrong {
    std::function<mlxcomm_code()> call;
    const char* says;
  };
  // The calls must have changed nothing, neither here nor in the daemon.
  void ExpectRefused(const std::vector<Wrong>& calls) {
    for (const Wrong& wrong : calls) {
      EXPECT_EQ(wrong.call(), MLXCOMM_INVALID_ARGUMENT) << wrong.says;
      EXPECT_THAT(error.message, HasSubstr(wrong.says));
    }
    EXPECT_EQ(mlxcomm_group_failure(group, &error), MLXCOMM_OK);
    const std::uint64_t next = Barrier();
    EXPECT_EQ(daemon.Take().ticket, next) << "something was submitted before";
    daemon.Complete(next);
  }
  queue::SubmissionEntry TakeAndComplete() {
    const queue::SubmissionEntry entry = daemon.Take();
    daemon.Complete(entry.ticket);
    EXPECT_EQ(Wait(ticket), MLXCOMM_OK) << error.message;
    return entry;
  }
  float* input = nullptr;
  float* output = nullptr;
  std::uint64_t ticket = 0;
};

// Why: requesting a kind by its number must request the same as the function of that name, and
// fields that a kind does not use must not reach the daemon.
// How: every field of the request is set, whatever the kind.
TEST_F(OperationsTest, AsksForEveryKindByItsFunctionAndByItsNumber) {
  std::uint32_t kinds = 0;
  std::uint32_t collectives = 0;  // Those that were called before.
  for (const Operation& operation : Operations()) {
    SCOPED_TRACE(OperationKindName(operation.kind));
    ASSERT_EQ(operation.call(group, {input, output}, &ticket, &error), MLXCOMM_OK) << error.message;
    queue::SubmissionEntry entry = TakeAndComplete();
    EXPECT_EQ(entry.kind, operation.kind);
    EXPECT_EQ(entry.ticket, ticket);
    EXPECT_EQ(entry.group, kWorld);
    EXPECT_EQ(entry.data_type, DataType::kFloat32);
    EXPECT_EQ(entry.input_offset, operation.input_elements == 0 ? 0 : OffsetOf(input));
    EXPECT_EQ(entry.output_offset, operation.output_elements == 0 ? 0 : OffsetOf(output));
    const bool to_peer = IsPointToPoint(operation.kind);
    EXPECT_EQ(entry.peer_rank, to_peer ? 2u : operation.has_root ? 1u : 0u);
    EXPECT_EQ(entry.tag, to_peer ? 9u : collectives++);
    EXPECT_EQ(entry.reduce_operator != ReduceOperator::kNone, Reduces(operation.kind));
    if (!HasCounts(operation.kind)) {
      EXPECT_EQ(entry.count, operation.kind == OperationKind::kBarrier ? 0u : 6u);
    }

    mlxcomm_request request{};
    request.struct_size = sizeof request;
    request.kind = static_cast<mlxcomm_kind>(operation.kind);
    request.type = kFloat;
    request.op = Reduces(operation.kind) ? static_cast<mlxcomm_operator>(entry.reduce_operator)
                                         : MLXCOMM_PROD;
    request.peer = operation.has_root ? 1 : 2;
    request.tag = 9;
    request.input = input;
    request.output = output;
    request.count = 6;
    request.counts = CountsPerRank(operation.kind) == 2 ? kSent.data() : kCounts.data();
    request.receive_counts = kReceived.data();
    ASSERT_EQ(mlxcomm_submit(group, &request, &ticket, &error), MLXCOMM_OK) << error.message;
    entry.ticket = ticket;
    if (!to_peer) entry.tag = collectives++;
    const queue::SubmissionEntry asked = TakeAndComplete();
    EXPECT_EQ(std::memcmp(&entry, &asked, sizeof entry), 0);
    EXPECT_STREQ(mlxcomm_kind_name(request.kind), OperationKindName(operation.kind));
    kinds |= 1u << static_cast<unsigned>(operation.kind);
  }
  for (unsigned kind = 1; IsValid(static_cast<OperationKind>(kind)); ++kind) {
    EXPECT_NE(kinds & (1u << kind), 0u) << OperationKindName(static_cast<OperationKind>(kind));
  }
  EXPECT_EQ(mlxcomm_kind_name(static_cast<mlxcomm_kind>(0)), nullptr);
  EXPECT_EQ(mlxcomm_kind_name(static_cast<mlxcomm_kind>(15)), nullptr);
}

// Why: on the other ranks, buffers that only the root uses may have any value, especially NULL.
TEST_F(OperationsTest, DoesNotLookAtBuffersThatOnlyTheRootUses) {
  float elsewhere = 0;
  EXPECT_TRUE(
      Ok(mlxcomm_broadcast(group, &elsewhere, output, 6, MLXCOMM_FLOAT32, 0, 0, &ticket, &error)));
  EXPECT_EQ(daemon.Take().input_offset, 0u);
  daemon.Complete(ticket);
  EXPECT_TRUE(Ok(mlxcomm_reduce(group, input, nullptr, 6, MLXCOMM_FLOAT32, MLXCOMM_SUM, 2, 0,
                                &ticket, &error)));
  EXPECT_EQ(daemon.Take().output_offset, 0u);
  daemon.Complete(ticket);
}

TEST_F(OperationsTest, HandsTablesOverInTheArenaUntilTheOperationHasEnded) {
  const auto ask = [&](const std::uint64_t* counts) {
    return mlxcomm_all_gather_v(group, input, output, counts, MLXCOMM_FLOAT32, 0, &ticket, &error);
  };
  std::vector<std::uint64_t> counts = {5, 1, 2};
  ASSERT_EQ(ask(counts.data()), MLXCOMM_OK) << error.message;
  counts = {9, 9, 9};  // Read before the call returned.
  const queue::SubmissionEntry first = daemon.Take();
  const auto* const table = daemon.At<std::uint64_t>(first.count);
  EXPECT_THAT(std::vector(table, table + 3), ElementsAre(5, 1, 2));

  counts = {1, 1, 1};
  const std::uint64_t ticket_of_first = ticket;
  ASSERT_EQ(ask(counts.data()), MLXCOMM_OK) << error.message;
  EXPECT_NE(daemon.Take().count, first.count) << "the first is still in use";
  daemon.Complete(ticket_of_first);
  daemon.Complete(ticket);
  EXPECT_EQ(Wait(ticket_of_first), MLXCOMM_OK) << error.message;
  EXPECT_EQ(Wait(ticket), MLXCOMM_OK) << error.message;
  void* all_else = nullptr;
  mlxcomm_buffer_free(connection, input);
  mlxcomm_buffer_free(connection, output);
  EXPECT_EQ(mlxcomm_buffer_allocate(connection, FakeDaemon::kArenaBytes, &all_else, &error),
            MLXCOMM_OK)
      << "tables were left: " << error.message;
  EXPECT_EQ(mlxcomm_all_gather_v(group, nullptr, all_else, kCounts.data(), MLXCOMM_FLOAT32, 0,
                                 &ticket, &error),
            MLXCOMM_RESOURCE_EXHAUSTED);
  EXPECT_THAT(error.message, HasSubstr("table of 3 counts"));
}

TEST_F(OperationsTest, TakesTheDeadlineOfTheCallBeforeThatOfTheGroup) {
  const auto timeout_of = [&](std::uint64_t timeout_ns) {
    EXPECT_EQ(mlxcomm_barrier(group, timeout_ns, &ticket, &error), MLXCOMM_OK) << error.message;
    daemon.Complete(ticket);
    return daemon.Take().timeout_ns;
  };
  EXPECT_EQ(timeout_of(0), 0u) << "the daemon's default";
  mlxcomm_group_set_timeout(group, 3'000'000'000);
  EXPECT_EQ(timeout_of(0), 3'000'000'000u);
  EXPECT_EQ(timeout_of(1'000'000'000), 1'000'000'000u);
  mlxcomm_group_set_timeout(group, 0);
  EXPECT_EQ(timeout_of(0), 0u);
}

TEST_F(OperationsTest, ForcesAPlanOnLaterCalls) {
  ASSERT_EQ(mlxcomm_group_set_plan(group, MLXCOMM_PLAN_TREE, &error), MLXCOMM_OK);
  ASSERT_EQ(Reduce(input, 6, ticket), MLXCOMM_OK) << error.message;
  EXPECT_EQ(daemon.Take().plan, PlanKind::kTree);
  daemon.Complete(ticket);
  for (const int number : {5, 7}) {  // 5 was a plan that no daemon ever chose.
    EXPECT_EQ(mlxcomm_group_set_plan(group, static_cast<mlxcomm_plan>(number), &error),
              MLXCOMM_INVALID_ARGUMENT);
  }
}

// Why: a wrong argument must change nothing, neither here nor on the other ranks.
TEST_F(OperationsTest, RefusesArgumentsAndSaysWhichAndWhatWasExpected) {
  const auto bad_type = static_cast<mlxcomm_data_type>(15);
  const auto bad_op = static_cast<mlxcomm_operator>(0);
  std::uint64_t* const t = &ticket;
  mlxcomm_error* const e = &error;
  mlxcomm_group* const g = group;
  float* const in = input;
  float* const out = output;
  ExpectRefused({
      {[&] { return mlxcomm_barrier(nullptr, 0, t, e); }, "group: expected a pointer"},
      // Without a ticket the call itself waits.
      {[&] { return mlxcomm_all_gather(g, in, out, 1, bad_type, 0, nullptr, e); },
       "type: expected one of mlxcomm_data_type, got 15"},
      {[&] { return mlxcomm_all_gather(g, in, out, 1, bad_type, 0, t, e); },
       "type: expected one of mlxcomm_data_type, got 15"},
      {[&] { return mlxcomm_all_reduce(g, in, in, 1, kFloat, bad_op, 0, t, e); },
       "op: expected one of mlxcomm_operator, got 0"},
      {[&] { return mlxcomm_all_reduce(g, in, in, 1, kFloat, MLXCOMM_AND, 0, t, e); },
       "op: expected an operator for float32, got and, which needs bool"},
      {[&] { return mlxcomm_reduce(g, in, in, 1, MLXCOMM_INT8, MLXCOMM_MEAN, 1, 0, t, e); },
       "op: expected an operator for int8, got mean"},
      {[&] {
         return mlxcomm_reduce_scatter(g, in, out, 1, MLXCOMM_COMPLEX64, MLXCOMM_OR, 0, t, e);
       },
       "op: expected an operator for complex64, got or"},
      {[&] { return mlxcomm_broadcast(g, in, out, 1, kFloat, 3, 0, t, e); },
       "root: expected a rank below 3, got 3"},
      {[&] { return mlxcomm_send(g, in, 1, kFloat, 1, 0, 0, t, e); },
       "destination: expected another rank (not 1) below 3, got 1"},
      {[&] { return mlxcomm_recv(g, out, 1, kFloat, 3, 0, 0, t, e); },
       "source: expected another rank (not 1) below 3, got 3"},
      {[&] { return mlxcomm_all_gather_v(g, in, out, nullptr, kFloat, 0, t, e); },
       "counts: expected a table of 3"},
      {[&] { return mlxcomm_all_to_all_v(g, in, out, kSent.data(), nullptr, kFloat, 0, t, e); },
       "send_counts and receive_counts"},
      {[&] {
         return mlxcomm_all_to_all_v(g, in, out, kSent.data(), kCounts.data(), kFloat, 0, t, e);
       },
       "receive_counts[1]: expected 4 as in send_counts[1], what this rank keeps, got 0"},
  });
}

TEST_F(OperationsTest, RefusesRequestsThatItDoesNotKnow) {
  mlxcomm_request request{};
  request.kind = MLXCOMM_BARRIER;
  const auto submit = [&] { return mlxcomm_submit(group, &request, &ticket, &error); };
  ExpectRefused({{[&] { return mlxcomm_submit(group, nullptr, &ticket, &error); }, "request: "},
                 {submit, "struct_size is sizeof(mlxcomm_request)"}});
  request.struct_size = sizeof request;
  request.kind = static_cast<mlxcomm_kind>(14);
  ExpectRefused({{submit, "kind: expected one of mlxcomm_kind, got 14"}});
}

TEST_F(OperationsTest, RefusesBuffersAndSaysWhichAndWhatWasExpected) {
  float outside[18] = {};
  auto* const crooked = reinterpret_cast<float*>(reinterpret_cast<std::byte*>(input) + 2);
  std::uint64_t* const t = &ticket;
  mlxcomm_error* const e = &error;
  mlxcomm_group* const g = group;
  float* const in = input;
  float* const out = output;
  ExpectRefused({
      {[&] { return mlxcomm_all_gather(g, nullptr, out, 1, kFloat, 0, t, e); },
       "input: expected 1 elements, got NULL"},
      {[&] { return mlxcomm_all_to_all(g, in, outside, 1, kFloat, 0, t, e); },
       "output: expected memory of this"},
      {[&] { return mlxcomm_send(g, crooked, 1, kFloat, 2, 0, 0, t, e); },
       "input: expected alignment"},
      {[&] { return mlxcomm_scatter(g, in, out, std::uint64_t{1} << 40, kFloat, 1, 0, t, e); },
       "more than the arena"},
      {[&] { return mlxcomm_all_to_all(g, in, out, UINT64_MAX / 2, kFloat, 0, t, e); },
       "count: expected up to"},
      {[&] { return mlxcomm_gather(g, in, in, 2, kFloat, 1, 0, t, e); },
       "overlaps the input, which gather does not"},
      {[&] { return mlxcomm_all_reduce(g, in, in + 1, 4, kFloat, MLXCOMM_SUM, 0, t, e); },
       "expected the same place"},
  });
}

TEST_F(OperationsTest, AllowsInPlaceWhereTheHeaderSaysSoAndNowhereElse) {
  for (const Operation& operation : Operations()) {
    if (operation.input_elements == 0 || operation.output_elements == 0) continue;
    SCOPED_TRACE(OperationKindName(operation.kind));
    const mlxcomm_code code = operation.call(group, {input, input}, &ticket, &error);
    EXPECT_EQ(code, operation.in_place ? MLXCOMM_OK : MLXCOMM_INVALID_ARGUMENT) << error.message;
    if (code == MLXCOMM_OK) daemon.Complete(ticket);
  }
}

TEST_F(OperationsTest, AllowsNothingAtAll) {
  const std::array<std::uint64_t, 3> none{};
  EXPECT_TRUE(Ok(mlxcomm_all_to_all_v(group, nullptr, nullptr, none.data(), none.data(),
                                      MLXCOMM_BOOL, 0, &ticket, &error)));
  daemon.Complete(ticket);
  EXPECT_TRUE(
      Ok(mlxcomm_scatter(group, nullptr, nullptr, 0, MLXCOMM_UINT64, 0, 0, &ticket, &error)));
  daemon.Complete(ticket);
}

class PairTest : public SessionTest {
 protected:
  PairTest() : SessionTest(0, 2) {}  // Each rank is on a separate node.
};

// Why: between two nodes small data is combined as it arrives, but not over data that is still to
// be sent.
TEST_F(PairTest, PrefersMemoryOfItsOwnForASmallSum) {
  EXPECT_EQ(mlxcomm_prefers_in_place(group, MLXCOMM_ALL_REDUCE, 1 << 20), 0);
  EXPECT_EQ(mlxcomm_prefers_in_place(group, MLXCOMM_ALL_REDUCE, (1 << 20) + 1), 1);
  EXPECT_EQ(mlxcomm_prefers_in_place(group, MLXCOMM_BROADCAST, 8), 1);
  EXPECT_EQ(mlxcomm_prefers_in_place(group, MLXCOMM_ALL_GATHER, 8), 0) << "may not be in place";
}

TEST_F(OperationsTest, PrefersThePlaceOfTheInputAmongThree) {
  EXPECT_EQ(mlxcomm_prefers_in_place(group, MLXCOMM_ALL_REDUCE, 8), 1);
}

// Why: the library casts between the numbers of mlxcomm.h and those of proto/types.
#define ROW(name) {MLXCOMM_##name, #name}
TEST(HeaderTest, HasTheNumbersOfProtoTypesAndNoOthers) {
  using Rows = std::vector<std::pair<unsigned, const char*>>;
  const auto check = []<typename Ours>(const char* (*name_of)(Ours), const Rows& rows,
                                       const char* prefix = "") {
    for (const auto& [number, name] : rows) {
      EXPECT_STRCASEEQ((prefix + std::string(name_of(static_cast<Ours>(number)))).c_str(), name);
    }
    EXPECT_FALSE(IsValid(static_cast<Ours>(rows.back().first + 1))) << "mlxcomm.h lacks a number";
  };
  check(&FailureCodeName,
        {ROW(OK), ROW(INVALID_ARGUMENT), ROW(MISMATCH), ROW(DEADLINE_EXCEEDED), ROW(RANK_LOST),
         ROW(DAEMON_LOST), ROW(DAEMON_STOPPING), ROW(RESOURCE_EXHAUSTED), ROW(CANCELLED),
         ROW(ALREADY_EXISTS), ROW(UNAVAILABLE), ROW(PERMISSION_DENIED), ROW(INTERNAL)});
  check(&DataTypeName, {ROW(FLOAT32), ROW(FLOAT16), ROW(BFLOAT16), ROW(INT32), ROW(BOOL), ROW(INT8),
                        ROW(INT16), ROW(INT64), ROW(UINT8), ROW(UINT16), ROW(UINT32), ROW(UINT64),
                        ROW(FLOAT64), ROW(COMPLEX64)});
  check(&ReduceOperatorName,
        {ROW(SUM), ROW(PROD), ROW(MIN), ROW(MAX), ROW(AND), ROW(OR), ROW(MEAN)});
  check(&OperationKindName, {ROW(ALL_REDUCE), ROW(ALL_GATHER), ROW(SEND), ROW(RECV), ROW(BARRIER),
                             ROW(REDUCE_SCATTER), ROW(BROADCAST), ROW(REDUCE), ROW(ALL_TO_ALL),
                             ROW(GATHER), ROW(SCATTER), ROW(ALL_GATHER_V), ROW(ALL_TO_ALL_V)});
  check(&PlanKindName,
        {ROW(PLAN_AUTOMATIC), ROW(PLAN_RING), ROW(PLAN_EXCHANGE), ROW(PLAN_HALVING_DOUBLING),
         ROW(PLAN_TREE)},
        "PLAN_");
}

class AloneTest : public SessionTest {
 protected:
  AloneTest() : SessionTest(0, 1) {}
};

// Why: a call without a ticket is one call instead of two, for every kind.
TEST_F(AloneTest, WaitsInTheCallItselfWhereThereIsNoPlaceForATicket) {
  float* const input = Allocate(sizeof(float));
  float* const output = Allocate(sizeof(float));
  input[0] = 5;
  ASSERT_TRUE(Ok(mlxcomm_all_gather(group, input, output, 1, kFloat, 0, nullptr, &error)));
  EXPECT_EQ(output[0], 5);
  mlxcomm_request request{};
  request.struct_size = sizeof request;
  request.kind = MLXCOMM_BROADCAST;
  request.type = kFloat;
  request.input = request.output = input;
  request.count = 1;
  EXPECT_EQ(mlxcomm_submit(group, &request, nullptr, &error), MLXCOMM_OK) << error.message;
  EXPECT_EQ(mlxcomm_barrier(group, 0, nullptr, &error), MLXCOMM_OK) << error.message;
}

TEST_F(AloneTest, RefusesWhatNeedsAnotherRankAndWhatIsNoBuffer) {
  float* const data = Allocate(64);
  std::uint64_t ticket = 0;
  EXPECT_EQ(mlxcomm_send(group, data, 1, MLXCOMM_FLOAT32, 0, 0, 0, &ticket, &error),
            MLXCOMM_INVALID_ARGUMENT);
  EXPECT_THAT(error.message,
              HasSubstr("destination: expected another rank (a group of one has none), got 0"));
  EXPECT_EQ(mlxcomm_broadcast(group, data, data, 1, MLXCOMM_FLOAT32, 1, 0, &ticket, &error),
            MLXCOMM_INVALID_ARGUMENT);
  mlxcomm_buffer_free(connection, data);
  EXPECT_EQ(Reduce(data, 1, ticket), MLXCOMM_INVALID_ARGUMENT);
  EXPECT_THAT(error.message, HasSubstr("has not been freed"));
}

TEST_F(AloneTest, HasEndedBeforeItIsAskedForAndWorksWithoutItsDaemon) {
  daemon.Die();
  int done = 0;
  std::uint64_t ticket = Barrier();
  EXPECT_EQ(mlxcomm_test(group, ticket, &done, &error), MLXCOMM_OK) << error.message;
  EXPECT_EQ(done, 1);
  ticket = Barrier();
  EXPECT_EQ(mlxcomm_cancel(group, ticket, 0, &error), MLXCOMM_OK) << error.message;
  EXPECT_EQ(Wait(ticket + 1), MLXCOMM_INVALID_ARGUMENT) << "nobody was given that ticket";
  EXPECT_EQ(mlxcomm_group_failure(group, &error), MLXCOMM_OK);
  EXPECT_STREQ(mlxcomm_group_name(group), "job");
  EXPECT_EQ(mlxcomm_member_pid(group, 0), static_cast<std::uint64_t>(::getpid()));
  EXPECT_STRNE(mlxcomm_member_node(group, 0), "");
  EXPECT_EQ(mlxcomm_member_node(group, 1), nullptr);
}

}  // namespace
}  // namespace mlxcomm::client::operations_test
