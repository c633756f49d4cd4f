// The tables of operation.h: each value has a row, and the rows are correct. The facts are repeated
// here as numbers, because a wrong row would be wrong everywhere.
#include "proto/types/operation.h"

#include <map>
#include <set>
#include <string>
#include <vector>

#include "proto/types/operation_shape.h"

namespace mlxcomm::operation_test {
namespace {

constexpr std::uint32_t kSize = 3;
constexpr std::uint32_t kRoot = 2;
constexpr std::uint64_t kCount = 6;

// Elements that the root reads and writes, then another rank does.
struct Elements {
  std::uint64_t root_in, root_out, other_in, other_out;
  bool operator==(const Elements&) const = default;
};
const std::map<std::string, Elements> kElements = {
    {"all_reduce", {6, 6, 6, 6}},     {"all_gather", {6, 18, 6, 18}},
    {"send", {6, 0, 6, 0}},           {"recv", {0, 6, 0, 6}},
    {"barrier", {0, 0, 0, 0}},        {"reduce_scatter", {18, 6, 18, 6}},
    {"broadcast", {6, 6, 0, 6}},      {"reduce", {6, 6, 6, 0}},
    {"all_to_all", {18, 18, 18, 18}}, {"gather", {6, 18, 6, 0}},
    {"scatter", {18, 6, 0, 6}},       {"all_gather_v", {4, 7, 1, 7}},
    {"all_to_all_v", {7, 9, 7, 9}},
};
const std::vector<std::uint64_t> kCounts = {2, 1, 4, 5, 3, 1};

OperationShape ShapeAt(OperationKind kind, std::uint32_t rank) {
  OperationShape shape;
  const std::uint64_t count = HasCounts(kind) || IsEmpty(kind) ? 0 : kCount;
  const std::span<const std::uint64_t> counts(kCounts.data(), CountsLength(kind, kSize));
  EXPECT_TRUE(ShapeOf({kind, count, rank, kSize, kRoot, counts}, shape));
  return shape;
}

std::set<std::string> NamesWith(bool (*property)(OperationKind)) {
  std::set<std::string> names;
  kOperations.ForEach([&](const OperationRow& row) {
    if (property(row.value)) names.insert(row.name);
  });
  return names;
}

template <typename Table>
void ExpectOneNameEach(const Table& table) {
  using Value = typename Table::Value;
  std::set<std::string> names;
  int values = 0;
  for (int number = 0; number < 256; ++number) {
    const auto value = static_cast<Value>(number);
    EXPECT_EQ(IsValid(value), table.Find(value) != nullptr);
    if (!IsValid(value)) {
      EXPECT_STREQ(table.NameOf(value), "unknown");
      continue;
    }
    ++values;
    names.insert(table.NameOf(value));
    ASSERT_NE(table.FindNamed(table.NameOf(value)), nullptr);
    EXPECT_EQ(table.FindNamed(table.NameOf(value))->value, value);
  }
  EXPECT_EQ(names.size(), static_cast<std::size_t>(values));
  EXPECT_EQ(table.FindNamed("unknown"), nullptr);
  EXPECT_EQ(table.FindNamed(""), nullptr);
}

TEST(OperationTablesTest, HaveOneNameForEachValueAndFindItAgain) {
  ExpectOneNameEach(kOperations);
  ExpectOneNameEach(kDataTypes);
  ExpectOneNameEach(kReduceOperators);
  ExpectOneNameEach(kPlanKinds);
}

TEST(OperationTablesTest, ListTheChoices) {
  EXPECT_EQ(kPlanKinds.Names(","), "ring,exchange,halving_doubling,tree");
  EXPECT_EQ(kReduceOperators.Names(", "), "sum, prod, min, max, and, or, mean");
  EXPECT_EQ(kDataTypes.NamesWhere(
                "/", [](const DataTypeRow& row) { return row.numbers == Numbers::kFloats; }),
            "float32/float16/bfloat16/float64");
}

TEST(OperationTablesTest, GiveWhatEachRankReadsAndWrites) {
  std::size_t kinds = 0;
  kOperations.ForEach([&](const OperationRow& row) {
    SCOPED_TRACE(row.name);
    ++kinds;
    const OperationShape root = ShapeAt(row.value, kRoot);
    const OperationShape other = ShapeAt(row.value, 1);
    ASSERT_TRUE(kElements.contains(row.name)) << "say here, too, what it reads and writes";
    EXPECT_EQ((Elements{root.input_elements, root.output_elements, other.input_elements,
                        other.output_elements}),
              kElements.at(row.name));
    EXPECT_EQ(other.reads, other.input_elements > 0);
    EXPECT_EQ(other.writes, other.output_elements > 0);
  });
  EXPECT_EQ(kinds, kElements.size());
}

TEST(OperationTablesTest, GiveTheSourcesOfEachOutput) {
  const std::set<std::string> of_root = {"broadcast", "scatter"};
  const std::set<std::string> of_nobody = {"barrier", "recv", "send"};
  kOperations.ForEach([&](const OperationRow& row) {
    SCOPED_TRACE(row.name);
    const Sources sources = SourcesOf({.kind = row.value, .rank = 1, .size = kSize, .root = kRoot});
    const bool is_of_root = of_root.contains(row.name);
    EXPECT_EQ(sources.begin, is_of_root ? kRoot : 0);
    EXPECT_EQ(sources.count(), of_nobody.contains(row.name) ? 0 : is_of_root ? 1 : kSize);
  });
}

TEST(OperationTablesTest, GiveTheArgumentsOfEachKind) {
  using Names = std::set<std::string>;
  EXPECT_EQ(NamesWith(Reduces), (Names{"all_reduce", "reduce", "reduce_scatter"}));
  EXPECT_EQ(NamesWith(IsFromRoot), (Names{"broadcast", "scatter"}));
  EXPECT_EQ(NamesWith(IsToRoot), (Names{"gather", "reduce"}));
  EXPECT_EQ(NamesWith(IsPointToPoint), (Names{"recv", "send"}));
  EXPECT_EQ(NamesWith(HasCounts), (Names{"all_gather_v", "all_to_all_v"}));
  EXPECT_EQ(NamesWith(MayBeInPlace), (Names{"all_reduce", "broadcast", "reduce"}));
  EXPECT_EQ(NamesWith(IsEmpty), (Names{"barrier"}));
  EXPECT_EQ(CountsPerRank(OperationKind::kAllGatherV), 1u);
  EXPECT_EQ(CountsPerRank(OperationKind::kAllToAllV), 2u);
}

// Why: values from other processes are looked up before they are checked.
TEST(OperationTablesTest, AcceptInvalidValues) {
  for (const int number : {0, 14, 255}) {
    const auto kind = static_cast<OperationKind>(number);
    EXPECT_FALSE(Reduces(kind) || HasRoot(kind) || HasCounts(kind) || IsPointToPoint(kind));
    OperationShape shape;
    EXPECT_FALSE(ShapeOf({.kind = kind, .count = 0}, shape));
  }
  EXPECT_EQ(DataTypeBytes(static_cast<DataType>(0)), 0u);
  EXPECT_FALSE(HasMeaning(static_cast<DataType>(0), ReduceOperator::kSum));
  EXPECT_FALSE(HasMeaning(DataType::kFloat32, static_cast<ReduceOperator>(99)));
}

TEST(OperationTablesTest, GiveTheTypesOfEachOperator) {
  const auto types_of = [](ReduceOperator op) {
    return kDataTypes.NamesWhere(
        " ", [op](const DataTypeRow& row) { return HasMeaning(row.value, op); });
  };
  EXPECT_EQ(types_of(ReduceOperator::kMean), "float32 float16 bfloat16 float64 complex64");
  EXPECT_EQ(types_of(ReduceOperator::kAnd),
            "int32 bool int8 int16 int64 uint8 uint16 uint32 uint64");
  EXPECT_EQ(types_of(ReduceOperator::kOr), types_of(ReduceOperator::kAnd));
  EXPECT_EQ(types_of(ReduceOperator::kSum), kDataTypes.Names(" "));
  EXPECT_STREQ(MeaningOf(ReduceOperator::kMean), "a floating or complex");
  EXPECT_STREQ(MeaningOf(ReduceOperator::kOr), "bool or an integer");
}

TEST(ShapeTest, RefusesTooManyElementsOrAWrongTable) {
  OperationShape shape;
  EXPECT_TRUE(
      ShapeOf({.kind = OperationKind::kAllToAll, .count = kElementsMax / 4, .size = 4}, shape));
  EXPECT_FALSE(
      ShapeOf({.kind = OperationKind::kAllToAll, .count = kElementsMax / 4 + 1, .size = 4}, shape));
  EXPECT_FALSE(ShapeOf({.kind = OperationKind::kBarrier, .count = 1}, shape));
  EXPECT_FALSE(ShapeOf({.kind = OperationKind::kBroadcast, .count = 1, .size = 0}, shape));
  ShapeRequest request{.kind = OperationKind::kAllGatherV, .size = 2};
  EXPECT_FALSE(ShapeOf(request, shape)) << "no table";
  const std::vector<std::uint64_t> huge = {kElementsMax, 1};
  request.counts = huge;
  EXPECT_FALSE(ShapeOf(request, shape));
  request.rank = 2;
  EXPECT_FALSE(ShapeOf(request, shape)) << "no such rank";
}

// Why: bench and plan show it beside a cable's capacity.
// How: PERFORMANCE.md of nccl-tests.
TEST(ShapeTest, LoadsARingAsInNcclTests) {
  EXPECT_DOUBLE_EQ(RingLoad(OperationKind::kAllReduce, 4), 1.5);
  EXPECT_DOUBLE_EQ(RingLoad(OperationKind::kReduceScatter, 4), 0.75);
  EXPECT_DOUBLE_EQ(RingLoad(OperationKind::kAllGatherV, 4), 0.75);
  EXPECT_DOUBLE_EQ(RingLoad(OperationKind::kReduce, 4), 1);
  EXPECT_DOUBLE_EQ(RingLoad(OperationKind::kSend, 4), 1);
}

}  // namespace
}  // namespace mlxcomm::operation_test
