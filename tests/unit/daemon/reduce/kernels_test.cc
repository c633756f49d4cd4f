// Every type with every operator against plain loops, bit by bit.
#include "daemon/reduce/kernels.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "tests/unit/daemon/reduce/buffers.h"
#include "tests/unit/daemon/reduce/oracle.h"

namespace mlxcomm::reduce::kernels_test {
namespace {

using oracle::Bits;

// Integers: any bits. Floating point: numbers of ordinary size, and sometimes a special value.
Bits RandomElement(DataType type, std::mt19937_64& random) {
  if (type == DataType::kComplex64) {
    const Bits real = RandomElement(DataType::kFloat32, random);
    return real | RandomElement(DataType::kFloat32, random) << 32;
  }
  if (type == DataType::kBool) return random() % 4 == 0 ? random() & 0xff : random() % 2;
  if (!oracle::IsFloating(type)) {
    return random() >> (64 - 8 * DataTypeBytes(type));
  }
  const double specials[] = {0.0,          -0.0,    HUGE_VAL,  -HUGE_VAL,
                             std::nan(""), 0x1p-24, -0x1p-130, 65504.0};
  if (random() % 256 == 0) return oracle::Nearest(type, specials[random() % std::size(specials)]);
  return oracle::Nearest(type, std::uniform_real_distribution<double>(-2, 2)(random));
}

struct Shape {
  std::size_t inputs;
  std::size_t outputs;
  std::size_t elements;
  std::size_t shift;
  Stores stores;
  std::size_t further = 0;  // Elements by which each output is shifted relative to the one before.
};

using Case = std::tuple<DataType, ReduceOperator>;
class CombineTest : public testing::TestWithParam<Case> {
 protected:
  // One call with random numbers; every element of every output is compared.
  void Check(const Reduction& reduction, const Shape& shape) {
    std::vector<Buffer> in, out;
    std::vector<const std::byte*> inputs;
    std::vector<std::byte*> outputs;
    for (std::size_t k = 0; k < shape.inputs; ++k) {
      in.emplace_back(reduction.type, shape.elements, shape.shift);
      for (std::size_t i = 0; i < shape.elements; ++i) {
        in[k].set(i, RandomElement(reduction.type, random_));
      }
      inputs.push_back(in[k].data());
    }
    for (std::size_t k = 0; k < shape.outputs; ++k) {
      out.emplace_back(reduction.type, shape.elements, shape.shift + k * shape.further);
      outputs.push_back(out[k].data());
    }
    Combine(reduction, inputs.data(), shape.inputs, outputs.data(), shape.outputs, shape.elements,
            shape.stores);
    for (const Buffer& buffer : out) ASSERT_TRUE(buffer.KeptOthers()) << shape.elements;
    std::vector<Bits> row(shape.inputs);
    for (std::size_t i = 0; i < shape.elements; ++i) {
      for (std::size_t k = 0; k < shape.inputs; ++k) row[k] = in[k].at(i);
      const Bits expected = oracle::Expected(reduction, row);
      for (const Buffer& buffer : out) {
        ASSERT_TRUE(oracle::Agree(reduction.type, buffer.at(i), expected))
            << std::hex << buffer.at(i) << " instead of " << expected << std::dec << ", element "
            << i << " of " << shape.elements << ", inputs " << shape.inputs << ", divisor "
            << reduction.divisor;
      }
    }
  }

  std::mt19937_64 random_{7};
};

// Why: whole vectors, their rest and streaming stores are different code. A rank with other buffer
// boundaries would differ in the last bits.
// How: lengths around the vector sizes, aligned and off by one element, on every instruction set of
// this machine.
TEST_P(CombineTest, EqualsPlainLoopForEveryShape) {
  const auto [type, op] = GetParam();
  OnEveryTarget([&, type = type, op = op] {
    for (const std::size_t inputs : {1u, 2u, 3u, 7u, 64u}) {
      for (const std::size_t elements : {0u, 1u, 3u, 17u, 63u, 131u, 341u, 523u}) {
        for (const std::size_t shift : {0u, 1u}) {
          for (const Stores stores : {Stores::kOrdinary, Stores::kNonTemporal}) {
            const Shape shape{inputs, 1 + inputs % 3, elements, shift, stores};
            Check({type, op}, shape);
            if (op == ReduceOperator::kMean) {
              Check({type, op, static_cast<std::uint32_t>(inputs)}, shape);
              Check({type, op, 4096}, shape);
            }
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  });
}

// Why: stores that bypass the caches begin where all outputs are aligned, which may be nowhere.
TEST_P(CombineTest, EqualsPlainLoopIfOutputsAreAlignedAtDifferentElements) {
  const auto [type, op] = GetParam();
  OnEveryTarget([&, type = type, op = op] {
    for (const std::size_t elements : {1u, 63u, 341u}) {
      Check({type, op}, {2, 3, elements, 3, Stores::kNonTemporal, 0});
      Check({type, op}, {2, 3, elements, 0, Stores::kNonTemporal, 1});
      if (HasFatalFailure()) return;
    }
  });
}

// Why: ranks that compute the same element at different positions must agree, even in a NaN's
// payload.
// How: one column of elements, repeated; every position must give the same bits.
TEST_P(CombineTest, GivesTheSameBitsAtEveryPosition) {
  const auto [type, op] = GetParam();
  OnEveryTarget([&, type = type, op = op] {
    for (int round = 0; round < 50; ++round) {
      std::vector<Bits> column;
      for (int k = 0; k < 5; ++k) column.push_back(RandomElement(type, random_));
      const auto result = Combined({type, op}, std::vector<std::vector<Bits>>(131, column));
      for (const Bits bits : result) ASSERT_EQ(bits, result[0]);
    }
  });
}

// Why: whole lines are combined in chunks, each of which could be misplaced or cut short, or lose
// the row's other parameters. They are also used where stores cannot bypass the caches.
// How: rows of some chunks and a rest, with elements of any size, and off by one element.
TEST_P(CombineTest, EqualsPlainLoopInWholeLines) {
  const auto [type, op] = GetParam();
  const std::size_t chunk = 16 * 1024 / DataTypeBytes(type);
  for (const Stores stores : {Stores::kWholeLines, Stores::kNonTemporal}) {
    for (const std::size_t elements : {chunk / 2, chunk - 1, chunk, chunk + 1, 2 * chunk + 77}) {
      for (const std::size_t outputs : {1u, 2u}) {
        const Shape shape{2, outputs, elements, outputs - 1, stores};
        Check({type, op}, shape);
        if (op == ReduceOperator::kMean) Check({type, op, 3}, shape);
        if (HasFatalFailure()) return;
      }
    }
    Check({type, op}, {65, 2, chunk, 0, stores});  // More inputs than a chunk allows.
  }
}

TEST_P(CombineTest, WritesOverAnInputWhenInPlace) {
  const auto [type, op] = GetParam();
  const std::vector<Bits> column = {RandomElement(type, random_), RandomElement(type, random_)};
  for (const std::size_t elements : {std::size_t{77}, 20 * 1024 / DataTypeBytes(type)}) {
    for (const Stores stores : {Stores::kOrdinary, Stores::kWholeLines, Stores::kNonTemporal}) {
      Buffer a(type, elements, 0), b(type, elements, 0);
      for (std::size_t i = 0; i < elements; ++i) {
        a.set(i, column[0]);
        b.set(i, column[1]);
      }
      const std::byte* inputs[] = {a.data(), b.data()};
      std::byte* output = b.data();
      Combine({type, op}, inputs, 2, &output, 1, elements, stores);
      for (std::size_t i = 0; i < elements; ++i) {
        ASSERT_TRUE(oracle::Agree(type, b.at(i), oracle::Expected({type, op}, column)));
        ASSERT_EQ(a.at(i), column[0]);
      }
    }
  }
}

std::vector<Case> CasesWithAMeaning() {
  std::vector<Case> cases;
  for (const DataType type : oracle::kTypes) {
    for (const ReduceOperator op : oracle::kOperators) {
      if (HasMeaning(type, op)) cases.emplace_back(type, op);
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(EveryTypeAndOperator, CombineTest, testing::ValuesIn(CasesWithAMeaning()),
                         [](const auto& info) {
                           return std::string(DataTypeName(std::get<0>(info.param))) + "_" +
                                  ReduceOperatorName(std::get<1>(info.param));
                         });

// Why: broadcast, gather and others move elements without interpreting them.
TEST(CopyTest, KeepsEveryBitOfEveryType) {
  std::mt19937_64 random(11);
  for (const DataType type : oracle::kTypes) {
    for (const ReduceOperator op : {ReduceOperator::kNone, ReduceOperator::kSum}) {
      std::vector<std::vector<Bits>> columns;
      for (int i = 0; i < 100; ++i) columns.push_back({random() >> (64 - 8 * DataTypeBytes(type))});
      const auto result = Combined({type, op}, columns);
      for (std::size_t i = 0; i < columns.size(); ++i) ASSERT_EQ(result[i], columns[i][0]);
    }
  }
}

// Why: meaningless requests are refused earlier; a kernel that did something else would turn such a
// bug into wrong numbers.
TEST(RefusalDeathTest, AbortsIfTheOperatorHasNoMeaning) {
  const auto combine = [](const Reduction& reduction) {
    return Combined(reduction, {{0, 0}, {0, 0}});
  };
  EXPECT_DEATH(combine({DataType::kFloat32, ReduceOperator::kNone}), "");
  EXPECT_DEATH(combine({DataType::kFloat32, ReduceOperator::kAnd}), "");
  EXPECT_DEATH(combine({DataType::kInt32, ReduceOperator::kMean, 2}), "");
  EXPECT_DEATH(combine({DataType::kComplex64, ReduceOperator::kOr}), "");
  EXPECT_DEATH(combine({DataType::kFloat32, ReduceOperator::kSum, 2}), "");
  EXPECT_DEATH(combine({DataType::kFloat32, ReduceOperator::kMean, 0}), "");
}

}  // namespace
}  // namespace mlxcomm::reduce::kernels_test
