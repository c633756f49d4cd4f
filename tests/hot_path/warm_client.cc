// A rank whose operations the guard watches once they are warm: all_reduces one after another, and
// several in flight, from a thread of its own.
//
//   warm_client FLAG_FILE [allocates]    arms the guard by FLAG_FILE; rank and job by the environment
#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <thread>
#include <vector>

#include "client/lib/mlxcomm.hpp"

namespace {

constexpr std::uint64_t kFloats[] = {2, 16 * 1024, 4 * 1024 * 1024};
constexpr int kAtOnce = 8;
constexpr int kWarmRounds = 12;
constexpr int kRounds = 50;

void Round(mlxcomm::Group& group, mlxcomm::Buffer& in, mlxcomm::Buffer& out,
           std::vector<mlxcomm::Ticket>& tickets) {
  for (const std::uint64_t count : kFloats) {
    group.AllReduce(in.data(), out.data(), count, MLXCOMM_FLOAT32);
  }
  for (int i = 0; i < kAtOnce; ++i) {
    tickets.push_back(
        group.AllReduceAsync(in.as<float>() + i, out.as<float>() + i, 1, MLXCOMM_FLOAT32));
  }
  for (mlxcomm::Ticket& ticket : tickets) ticket.Wait();
  tickets.clear();
}

void Run(int flag, bool allocates) {
  mlxcomm_connect_options options;
  mlxcomm_connect_options_init(&options);
  mlxcomm::Connection connection(options);
  mlxcomm::Group group(connection, std::getenv("MLXCOMM_JOB"),
                       static_cast<std::uint32_t>(std::atoi(std::getenv("MLX_RANK"))),
                       static_cast<std::uint32_t>(std::atoi(std::getenv("MLX_WORLD_SIZE"))));
  mlxcomm::Buffer in(connection, kFloats[2] * sizeof(float));
  mlxcomm::Buffer out(connection, kFloats[2] * sizeof(float));
  std::vector<mlxcomm::Ticket> tickets;
  tickets.reserve(kAtOnce);
  for (int i = 0; i < kWarmRounds; ++i) Round(group, in, out, tickets);
  (void)!pwrite(flag, "1", 1, 0);
  for (int i = 0; i < kRounds; ++i) {
    Round(group, in, out, tickets);
    if (allocates) {
      void* volatile memory = std::malloc(100);  // Else the compiler makes nothing of it.
      std::free(memory);
    }
  }
  (void)!pwrite(flag, "0", 1, 0);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const int flag = open(argv[1], O_WRONLY | O_CLOEXEC);
  if (flag < 0) return 2;
  int result = 1;
  std::thread([&] {
    try {
      Run(flag, argc > 2 && std::string(argv[2]) == "allocates");
      result = 0;
    } catch (const std::exception& error) {
      std::fprintf(stderr, "failed: %s\n", error.what());
    }
  }).join();
  return result;
}
