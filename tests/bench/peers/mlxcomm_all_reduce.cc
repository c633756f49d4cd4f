// all_reduce through mlxcomm's C++ client, from buffers in the arena.
#include <optional>

#include "client/lib/mlxcomm.hpp"
#include "tests/bench/peers/timed_all_reduce.h"

namespace {

class Mlxcomm final : public mlxcomm::bench::AllReduceSystem {
 public:
  Mlxcomm()
      : rank_(mlxcomm::bench::EnvironmentNumber("MLX_RANK")),
        size_(mlxcomm::bench::EnvironmentNumber("MLX_WORLD_SIZE")),
        connection_(Options()),
        attached_seconds_(mlxcomm::bench::Now()),
        group_(connection_, mlxcomm::bench::Environment("MLXCOMM_JOB"), rank_, size_) {}
  std::uint32_t rank() const override { return rank_; }
  std::uint32_t size() const override { return size_; }
  void Prepare(std::uint64_t count) override {
    input_.reset();
    output_.reset();
    count_ = count;
    input_.emplace(connection_, count * sizeof(float));
    output_.emplace(connection_, count * sizeof(float));
  }
  float* input() override { return input_->as<float>(); }
  const float* output() override { return output_->as<float>(); }
  void Run() override {
    group_.AllReduce(input_->data(), output_->data(), count_, MLXCOMM_FLOAT32);
  }
  void Meet() override { group_.Barrier(); }
  double attached_seconds() const override { return attached_seconds_; }

 private:
  static mlxcomm_connect_options Options() {
    mlxcomm_connect_options options;
    mlxcomm_connect_options_init(&options);
    return options;
  }
  std::uint32_t rank_;
  std::uint32_t size_;
  mlxcomm::Connection connection_;
  double attached_seconds_;
  mlxcomm::Group group_;
  std::optional<mlxcomm::Buffer> input_;
  std::optional<mlxcomm::Buffer> output_;
  std::uint64_t count_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  return mlxcomm::bench::TimedMain(argc, argv, [] { return std::make_unique<Mlxcomm>(); });
}
