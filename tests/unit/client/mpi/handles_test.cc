#include "client/mpi/handles.h"

#include <gmock/gmock.h>

#include <stdexcept>

namespace mlxcomm::mpi::handles_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

void Nothing(void*, void*, int*, MPI_Datatype*) {}

TEST(HandlesTest, FindsEveryTypeOfMlx) {
  EXPECT_EQ(FindType(&ompi_mpi_c_bool, "f").type, MLXCOMM_BOOL);
  EXPECT_EQ(FindType(&ompi_mpi_int8_t, "f").type, MLXCOMM_INT8);
  EXPECT_EQ(FindType(&ompi_mpi_uint16_t, "f").bytes, 2U);
  EXPECT_EQ(FindType(&ompi_mpi_int64_t, "f").type, MLXCOMM_INT64);
  EXPECT_EQ(FindType(&ompi_mpi_float, "f").type, MLXCOMM_FLOAT32);
  EXPECT_EQ(FindType(&ompi_mpi_double, "f").bytes, 8U);
  EXPECT_EQ(FindType(&ompi_mpi_c_complex, "f").type, MLXCOMM_COMPLEX64);
}

// Why: MLX makes both from two bytes, and only the order distinguishes them. One test, because they
// exist once in the process.
TEST(HandlesTest, TakesTheFirstTypeOfTwoBytesForFloat16AndTheSecondForBfloat16) {
  const MPI_Datatype first = MakeHalf(2, &ompi_mpi_uint8_t);
  const MPI_Datatype second = MakeHalf(2, &ompi_mpi_uint8_t);
  EXPECT_EQ(FindType(first, "f").type, MLXCOMM_FLOAT16);
  EXPECT_EQ(FindType(second, "f").type, MLXCOMM_BFLOAT16);
  EXPECT_THAT([] { MakeHalf(2, &ompi_mpi_uint8_t); },
              ThrowsMessage<std::runtime_error>(HasSubstr("a third type of 2 bytes")));
}

TEST(HandlesTest, RefusesTypesThatMlxDoesNotMake) {
  const auto refuses = [](int count, MPI_Datatype of) {
    EXPECT_THAT(([count, of] { MakeHalf(count, of); }),
                ThrowsMessage<std::runtime_error>(HasSubstr("expected 2 of ompi_mpi_uint8_t")));
  };
  refuses(3, &ompi_mpi_uint8_t);
  refuses(-1, &ompi_mpi_uint8_t);
  refuses(2, &ompi_mpi_float);
  refuses(2, nullptr);
}

// Why: a program built for another MPI passes its numbers as handles.
// How: unreadable addresses.
TEST(HandlesTest, NeverDereferencesAnUnknownHandle) {
  for (const std::uintptr_t address :
       {std::uintptr_t{0}, std::uintptr_t{1}, std::uintptr_t{0x4c000405}, ~std::uintptr_t{0}}) {
    const auto handle = reinterpret_cast<void*>(address);
    EXPECT_THAT(
        [handle] { FindType(handle, "MPI_Allreduce"); },
        ThrowsMessage<std::runtime_error>(HasSubstr("MPI_Allreduce: unknown datatype handle")));
    EXPECT_THAT(
        [handle] { FindOperator(handle, "MPI_Allreduce"); },
        ThrowsMessage<std::runtime_error>(HasSubstr("MPI_Allreduce: unknown operator handle")));
  }
  EXPECT_THROW(FindType(&ompi_mpi_op_sum, "f"), std::runtime_error);
  EXPECT_THROW(FindOperator(&ompi_mpi_float, "f"), std::runtime_error);
}

TEST(HandlesTest, UsesTheDaemonsOperatorsAndCallsOthers) {
  EXPECT_EQ(FindOperator(&ompi_mpi_op_max, "f").For(MLXCOMM_INT32), MLXCOMM_MAX);
  const Operator made = FindOperator(MakeOperator(&Nothing), "f");
  EXPECT_EQ(made.For(MLXCOMM_FLOAT16), std::nullopt);
  EXPECT_EQ(made.function, &Nothing);
  const Operator half{.on_all = {}, .on_halves = MLXCOMM_SUM, .function = &Nothing};
  EXPECT_EQ(half.For(MLXCOMM_BFLOAT16), MLXCOMM_SUM);
  EXPECT_EQ(half.For(MLXCOMM_COMPLEX64), std::nullopt);
  EXPECT_THROW(MakeOperator(nullptr), std::runtime_error);

  // The number is limited. Last, because afterwards no operator can be created.
  const auto make_many = [] {
    for (std::size_t i = 0; i <= kOperatorsMax; ++i) MakeOperator(&Nothing);
  };
  EXPECT_THAT(make_many, ThrowsMessage<std::runtime_error>(HasSubstr("more than 1024 operators")));
}

}  // namespace
}  // namespace mlxcomm::mpi::handles_test
