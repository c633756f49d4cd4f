// The limit of a local all_reduce between two ranks: a loop that reads both inputs and
// writes both outputs, by two threads that spin for each other, with stores past the cache
// where the data exceeds it. No daemon, no queue, no check; prints what all_reduce prints.
//
//   plain_loop [BYTES] [ROUNDS]
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace {

// As the daemon's workers on a machine of 32 MiB of cache.
constexpr std::size_t kBeyondCacheBytes = 4 * 1024 * 1024;

struct Buffers {
  const float* a;
  const float* b;
  float* x;
  float* y;
};

#if defined(__x86_64__)
template <bool kStreams>
__attribute__((target("avx2"))) void Add(const Buffers& at, std::size_t first, std::size_t last) {
  for (std::size_t i = first; i < last; i += 8) {
    const __m256 sum = _mm256_add_ps(_mm256_loadu_ps(at.a + i), _mm256_loadu_ps(at.b + i));
    if constexpr (kStreams) {
      _mm256_stream_ps(at.x + i, sum);
      _mm256_stream_ps(at.y + i, sum);
    } else {
      _mm256_storeu_ps(at.x + i, sum);
      _mm256_storeu_ps(at.y + i, sum);
    }
  }
  if constexpr (kStreams) _mm_sfence();
}
#else
template <bool kStreams>
void Add(const Buffers& at, std::size_t first, std::size_t last) {
  for (std::size_t i = first; i < last; ++i) at.x[i] = at.y[i] = at.a[i] + at.b[i];
}
#endif

float* Map(std::size_t bytes) {
  void* const mapped =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) std::exit(1);
  return static_cast<float*>(mapped);
}

// Two threads in step: each waits until the other has come as far.
class Steps {
 public:
  void Meet(int thread) {
    const std::uint64_t mine = done_[thread].value.load(std::memory_order_relaxed) + 1;
    done_[thread].value.store(mine, std::memory_order_release);
    while (done_[1 - thread].value.load(std::memory_order_acquire) < mine) {
    }
  }

 private:
  struct alignas(64) Count {
    std::atomic<std::uint64_t> value{0};
  };
  Count done_[2];
};

int Run(std::size_t bytes, int rounds) {
  const std::size_t count = std::max<std::size_t>(bytes / sizeof(float) / 16 * 16, 16);
  float* const inputs[] = {Map(count * sizeof(float)), Map(count * sizeof(float))};
  float* const outputs[] = {Map(count * sizeof(float)), Map(count * sizeof(float))};
  const Buffers at{inputs[0], inputs[1], outputs[0], outputs[1]};
  const bool streams = 4 * bytes > kBeyondCacheBytes;
  Steps steps;
  std::vector<double> times_us;
  std::atomic<bool> wrong{false};
  const auto rank = [&](int thread) {
    const std::size_t half = count / 2;
    for (int round = 0; round < rounds; ++round) {
      const auto value = static_cast<float>(thread + 1 + round % 7);
      std::fill_n(inputs[thread], count, value);
      steps.Meet(thread);
      const auto start = std::chrono::steady_clock::now();
      const std::size_t first = static_cast<std::size_t>(thread) * half;
      streams ? Add<true>(at, first, first + half) : Add<false>(at, first, first + half);
      steps.Meet(thread);
      const std::chrono::duration<double, std::micro> took =
          std::chrono::steady_clock::now() - start;
      if (thread == 0) times_us.push_back(took.count());
      const auto expected = static_cast<float>(3 + 2 * (round % 7));
      const float* const out = outputs[thread];
      if (std::any_of(out, out + count, [&](float sum) { return sum != expected; })) wrong = true;
    }
  };
  std::thread other(rank, 1);
  rank(0);
  other.join();
  if (wrong || times_us.empty()) return 1;
  std::sort(times_us.begin(), times_us.end());
  std::printf("{\"bytes\": %zu, \"median_us\": %.1f, \"min_us\": %.1f, \"bytes_read\": %zu, "
              "\"bytes_written\": %zu}\n",
              bytes, times_us[times_us.size() / 2], times_us.front(), 2 * count * sizeof(float),
              2 * count * sizeof(float));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return Run(argc > 1 ? std::stoull(argv[1]) : 1 << 20, argc > 2 ? std::atoi(argv[2]) : 20);
}
