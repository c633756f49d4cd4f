// The C functions in a world of one rank, which needs no daemon.
// tests/interop/test_mpi_shim.py has two ranks with daemons.
#include <gmock/gmock.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "client/mpi/open_mpi.h"

namespace mlxcomm::mpi::mpi_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

auto Refused(const std::string& why) { return ThrowsMessage<std::runtime_error>(HasSubstr(why)); }

class MpiTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* const name :
         {"MLX_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", "RANK"}) {
      ::unsetenv(name);
    }
    ASSERT_EQ(MPI_Init(nullptr, nullptr), MPI_SUCCESS);
  }
  void TearDown() override { EXPECT_EQ(MPI_Finalize(), MPI_SUCCESS); }

  MPI_Comm world_ = &ompi_mpi_comm_world;
  std::vector<float> in_{1, 2, 3};
  std::vector<float> out_{0, 0, 0};
};

TEST_F(MpiTest, HasOpenMpiInItsVersion) {
  char version[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(version, &length);
  EXPECT_THAT(std::string(version, static_cast<std::size_t>(length)), HasSubstr("Open MPI"));
}

TEST_F(MpiTest, ReturnsTheInputForOneRank) {
  int size = 0;
  MPI_Comm_size(world_, &size);
  EXPECT_EQ(size, 1);
  MPI_Allreduce(in_.data(), out_.data(), 3, &ompi_mpi_float, &ompi_mpi_op_sum, world_);
  EXPECT_EQ(out_, in_);
  MPI_Allreduce(MPI_IN_PLACE, out_.data(), 3, &ompi_mpi_float, &ompi_mpi_op_max, world_);
  EXPECT_EQ(out_, in_);
  std::vector<float> gathered(3);
  MPI_Allgather(in_.data(), 3, &ompi_mpi_float, gathered.data(), 3, &ompi_mpi_float, world_);
  EXPECT_EQ(gathered, in_);
  MPI_Allreduce(nullptr, nullptr, 0, &ompi_mpi_float, &ompi_mpi_op_sum, world_);
}

TEST_F(MpiTest, InitializesAgainAfterFinalize) {
  MPI_Init(nullptr, nullptr);
  MPI_Finalize();
  MPI_Finalize();
  EXPECT_THAT([&] { MPI_Comm_size(world_, nullptr); }, Refused("MPI_Comm_size"));
  int size = 0;
  EXPECT_THAT([&] { MPI_Comm_size(world_, &size); }, Refused("expected MPI_Init, and no"));
  MPI_Init(nullptr, nullptr);
  EXPECT_EQ(MPI_Comm_size(world_, &size), MPI_SUCCESS);
}

TEST_F(MpiTest, ForgetsAFreedCommunicator) {
  MPI_Comm part = nullptr;
  MPI_Comm_split(world_, 0, 0, &part);
  int rank = -1;
  MPI_Comm_rank(part, &rank);
  EXPECT_EQ(rank, 0);
  MPI_Comm copy = part;
  EXPECT_EQ(MPI_Comm_free(&part), MPI_SUCCESS);
  EXPECT_EQ(part, nullptr);
  EXPECT_EQ(MPI_Comm_free(&copy), MPI_ERR_COMM);
  EXPECT_THAT([&] { MPI_Comm_rank(copy, &rank); }, Refused("unknown communicator handle"));
  EXPECT_EQ(MPI_Comm_free(&world_), MPI_ERR_COMM);
  EXPECT_EQ(MPI_Comm_free(nullptr), MPI_ERR_COMM);
}

// Why: a wrong program, or one for another MPI, must get an error that names the argument.
TEST_F(MpiTest, RefusesUnknownArguments) {
  float* const in = in_.data();
  float* const out = out_.data();
  const MPI_Datatype type = &ompi_mpi_float;
  const MPI_Op sum = &ompi_mpi_op_sum;
  const auto nowhere = reinterpret_cast<void*>(0x44000000);
  EXPECT_THAT([&] { MPI_Allreduce(in, out, 3, nowhere, sum, world_); },
              Refused("unknown datatype"));
  EXPECT_THAT([&] { MPI_Allreduce(in, out, 3, type, nowhere, world_); },
              Refused("unknown operator"));
  EXPECT_THAT([&] { MPI_Allreduce(in, out, 3, type, sum, nowhere); },
              Refused("unknown communicator"));
  EXPECT_THAT([&] { MPI_Allreduce(in, out, -1, type, sum, world_); }, Refused("31 bits"));
  EXPECT_THAT([&] { MPI_Allreduce(nullptr, out, 3, type, sum, world_); }, Refused("NULL"));
  EXPECT_THAT([&] { MPI_Allreduce(in, MPI_IN_PLACE, 3, type, sum, world_); },
              Refused("MPI_IN_PLACE"));
  EXPECT_THAT([&] { MPI_Allgather(in, 3, type, out, 2, type, world_); },
              Refused("same type and count"));
  EXPECT_THAT([&] { MPI_Allgather(in, 3, &ompi_mpi_int32_t, out, 3, type, world_); },
              Refused("same type and count"));
  EXPECT_THAT([&] { MPI_Send(in, 3, type, 1, 0, world_); }, Refused("rank 1: expected 0 to 0"));
  EXPECT_THAT([&] { MPI_Send(in, 3, type, 0, 7, world_); }, Refused("tag 7: expected 0"));
  EXPECT_THAT([&] { MPI_Send(in, 3, type, 0, MPI_ANY_TAG, world_); }, Refused("tag -1"));
  EXPECT_THAT([&] { MPI_Send(in, 3, type, 0, 0, world_); }, Refused("alone"));
  EXPECT_THAT([&] { MPI_Recv(out, 3, type, MPI_ANY_SOURCE, 0, world_, nullptr); },
              Refused("no wildcard"));
  EXPECT_THAT([&] { MPI_Recv(out, 3, type, 0, MPI_ANY_TAG, world_, nullptr); }, Refused("alone"));
  EXPECT_THAT([&] { MPI_Comm_split(world_, 0, 0, nullptr); }, Refused("NULL"));
  EXPECT_THAT([&] { MPI_Type_commit(nullptr); }, Refused("NULL"));
  EXPECT_THAT([&] { MPI_Op_create(nullptr, 1, nullptr); }, Refused("NULL"));
}

}  // namespace
}  // namespace mlxcomm::mpi::mpi_test
