// A rank in C++: sums a buffer over all ranks of a job, checks and times it.
//
//   MLX_RANK=0 MLX_WORLD_SIZE=2 MLXCOMM_JOB=demo all_reduce [BYTES] [ROUNDS]
//
// or, all ranks at once: mlxcommctl launch -n 2 -- all_reduce 1048576 100
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "client/lib/mlxcomm.hpp"

namespace {

int Run(std::uint64_t bytes, int rounds) {
  const mlxcomm_place place = mlxcomm::FindPlace();
  const std::uint32_t rank = place.rank;
  const std::uint32_t size = place.size;
  mlxcomm_connect_options options;
  mlxcomm_connect_options_init(&options);
  const auto begin = std::chrono::steady_clock::now();
  mlxcomm::Connection connection(options);
  const auto connected = std::chrono::steady_clock::now();
  mlxcomm::Group group(connection, place);
  const auto joined = std::chrono::steady_clock::now();

  const std::uint64_t count = bytes / sizeof(float);
  mlxcomm::Buffer input(connection, bytes);
  mlxcomm::Buffer output(connection, bytes);
  std::vector<double> times_us;
  for (int round = 0; round < rounds; ++round) {
    const auto value = static_cast<float>(rank + 1 + static_cast<std::uint32_t>(round) % 7);
    std::fill_n(input.as<float>(), count, value);
    group.Barrier();
    const auto start = std::chrono::steady_clock::now();
    group.AllReduce(input.data(), output.data(), count, MLXCOMM_FLOAT32);
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    times_us.push_back(took.count());
    const std::uint32_t sum =
        size * (size + 1) / 2 + size * (static_cast<std::uint32_t>(round) % 7);
    const auto expected = static_cast<float>(sum);
    for (std::uint64_t i = 0; i < count; ++i) {
      if (output.as<float>()[i] == expected) continue;
      std::fprintf(stderr, "rank %u round %d: element %llu is %f, expected %f\n", rank, round,
                   static_cast<unsigned long long>(i), static_cast<double>(output.as<float>()[i]),
                   static_cast<double>(expected));
      return 1;
    }
  }
  std::ranges::sort(times_us);
  using Ms = std::chrono::duration<double, std::milli>;
  if (rank == 0 && !times_us.empty()) {
    std::printf(
        "{\"bytes\": %llu, \"median_us\": %.1f, \"min_us\": %.1f, \"connect_ms\": %.2f, "
        "\"join_ms\": %.2f}\n",
        static_cast<unsigned long long>(bytes), times_us[times_us.size() / 2], times_us.front(),
        Ms(connected - begin).count(), Ms(joined - connected).count());
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return Run(argc > 1 ? std::stoull(argv[1]) : 1 << 20, argc > 2 ? std::atoi(argv[2]) : 20);
  } catch (const mlxcomm::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
