// MPI_Allreduce, started by mpirun.
#include <mpi.h>

#include <stdexcept>

#include "tests/bench/peers/timed_all_reduce.h"

namespace {

class OpenMpi final : public mlxcomm::bench::AllReduceSystem {
 public:
  OpenMpi() {
    if (MPI_Init(nullptr, nullptr) != MPI_SUCCESS) throw std::runtime_error("MPI_Init failed");
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }
  ~OpenMpi() override { MPI_Finalize(); }
  std::uint32_t rank() const override { return static_cast<std::uint32_t>(rank_); }
  std::uint32_t size() const override { return static_cast<std::uint32_t>(size_); }
  void Prepare(std::uint64_t count) override {
    input_ = std::vector<float>(count);
    output_ = std::vector<float>(count);
  }
  float* input() override { return input_.data(); }
  const float* output() override { return output_.data(); }
  void Run() override {
    if (MPI_Allreduce(input_.data(), output_.data(), static_cast<int>(input_.size()), MPI_FLOAT,
                      MPI_SUM, MPI_COMM_WORLD) != MPI_SUCCESS) {
      throw std::runtime_error("MPI_Allreduce failed");
    }
  }
  void Meet() override { MPI_Barrier(MPI_COMM_WORLD); }

 private:
  int rank_ = 0;
  int size_ = 0;
  std::vector<float> input_;
  std::vector<float> output_;
};

}  // namespace

int main(int argc, char** argv) {
  return mlxcomm::bench::TimedMain(argc, argv, [] { return std::make_unique<OpenMpi>(); });
}
