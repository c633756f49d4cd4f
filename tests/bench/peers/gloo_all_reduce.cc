// gloo::allreduce over its TCP transport (it has none for shared memory). Ranks find each
// other through files in GLOO_STORE and listen at GLOO_ADDRESS.
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <optional>

#include "tests/bench/peers/timed_all_reduce.h"

namespace {

class Gloo final : public mlxcomm::bench::AllReduceSystem {
 public:
  Gloo()
      : context_(std::make_shared<gloo::rendezvous::Context>(
            static_cast<int>(mlxcomm::bench::EnvironmentNumber("MLX_RANK")),
            static_cast<int>(mlxcomm::bench::EnvironmentNumber("MLX_WORLD_SIZE")))) {
    gloo::transport::tcp::attr address;
    address.hostname = mlxcomm::bench::Environment("GLOO_ADDRESS");
    std::shared_ptr<gloo::transport::Device> device = gloo::transport::tcp::CreateDevice(address);
    gloo::rendezvous::FileStore store(mlxcomm::bench::Environment("GLOO_STORE"));
    context_->connectFullMesh(store, device);
  }
  std::uint32_t rank() const override { return static_cast<std::uint32_t>(context_->rank); }
  std::uint32_t size() const override { return static_cast<std::uint32_t>(context_->size); }
  void Prepare(std::uint64_t count) override {
    options_.reset();
    input_ = std::vector<float>(count);
    output_ = std::vector<float>(count);
    options_.emplace(context_);
    options_->setInput(input_.data(), count);
    options_->setOutput(output_.data(), count);
    void (*const sum)(void*, const void*, const void*, std::size_t) = &gloo::sum<float>;
    options_->setReduceFunction(sum);
  }
  float* input() override { return input_.data(); }
  const float* output() override { return output_.data(); }
  void Run() override { gloo::allreduce(*options_); }
  void Meet() override {
    gloo::BarrierOptions options(context_);
    gloo::barrier(options);
  }

 private:
  std::shared_ptr<gloo::rendezvous::Context> context_;
  std::vector<float> input_;
  std::vector<float> output_;
  std::optional<gloo::AllreduceOptions> options_;
};

}  // namespace

int main(int argc, char** argv) {
  return mlxcomm::bench::TimedMain(argc, argv, [] { return std::make_unique<Gloo>(); });
}
