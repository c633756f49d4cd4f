// One rank of a job: ground_rank RANK SIZE JOB WORD..., the words one after the other:
//
//   join:SECONDS as the first word: how long it waits for the other ranks; otherwise forever
//   sum:BYTES               one all_reduce of uint64, every value checked
//   await:FILE              until the file is there
//   loop:LEAST:MOST:FILE    all_reduces of sizes between, until the file is there
//   send:BYTES:FILE         to the next rank, again and again, until the file is there
//   scribble:BYTES:TIMES    all_reduces while a thread writes into both; no value is checked
//   warm:FILE[:allocates]   all_reduces of a thread that tests/hot_path watches; FILE arms it
//   mixed:SEED:FILE         all kinds of work that the seed draws, until the file is there
//   every, groups, ...      the calls of the interface (tasks.h)
//
// An error is printed with the monotonic clock's time, so that a test knows how long after the
// fault it occurred; then the exit code is 3. A wrong value gives 1.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "tests/ground/checked_operation.h"
#include "tests/ground/tasks.h"

namespace mlxcomm::ground {
namespace {

constexpr std::uint64_t kWord = sizeof(std::uint64_t);

class Sums {
 public:
  Sums(Connection& connection, Group& world, std::uint64_t bytes_max)
      : world_(world),
        bytes_max_(bytes_max),
        in_(connection, bytes_max),
        out_(connection, bytes_max) {}
  // After an error too: what had succeeded before it.
  ~Sums() {
    if (step_ == 0) return;
    std::printf("longest %.3f of %llu steps, %llu of the largest size\n", longest_,
                static_cast<unsigned long long>(step_), static_cast<unsigned long long>(largest_));
  }

  // `ends`: this rank wants to end. True if some rank does; all learn it in the same step.
  bool Step(std::uint64_t bytes, bool ends) {
    const std::uint64_t count = bytes / kWord;
    auto* const in = in_.as<std::uint64_t>();
    auto* const out = out_.as<std::uint64_t>();
    const std::uint64_t rank = world_.rank();
    const std::uint64_t size = world_.size();
    for (std::uint64_t i = 0; i < count; ++i) {
      in[i] = Word(step_, rank, i);
      out[i] = ~std::uint64_t{0};
    }
    // The first place has fewer digits, so that the number of ranks that want to end fits above
    // them.
    in[0] = (in[0] % kEnd) + (ends ? kEnd : 0);
    began_ = Now();
    world_.AllReduce(in, out, count, MLXCOMM_UINT64);
    ended_ = Now();
    longest_ = std::max(longest_, ended_ - began_);
    const std::uint64_t first = FirstPlace(size);
    const std::uint64_t enders = (out[0] - first) / kEnd;
    if (out[0] - first != enders * kEnd || enders > size) Wrong(0, count, out[0], first);
    for (std::uint64_t i = 1; i < count; ++i) {
      const std::uint64_t expected = SumOfWords(step_, size, i);
      if (out[i] != expected) Wrong(i, count, out[i], expected);
    }
    ++step_;
    if (bytes == bytes_max_) ++largest_;
    return enders > 0;
  }

  double began() const { return began_; }
  double ended() const { return ended_; }

 private:
  static constexpr std::uint64_t kEnd = std::uint64_t{1} << 48;

  std::uint64_t FirstPlace(std::uint64_t size) const {
    std::uint64_t sum = 0;
    for (std::uint64_t r = 0; r < size; ++r) sum += (Mixed(step_, 0) + r) % kEnd;
    return sum;
  }
  void Wrong(std::uint64_t place, std::uint64_t count, std::uint64_t got, std::uint64_t expected) {
    char text[160];
    std::snprintf(text, sizeof text, "step %llu of %llu words: place %llu is %llx instead of %llx",
                  static_cast<unsigned long long>(step_), static_cast<unsigned long long>(count),
                  static_cast<unsigned long long>(place), static_cast<unsigned long long>(got),
                  static_cast<unsigned long long>(expected));
    throw WrongValue(text);
  }

  Group& world_;
  std::uint64_t bytes_max_;
  Buffer in_;
  Buffer out_;
  std::uint64_t step_ = 0;
  std::uint64_t largest_ = 0;
  double began_ = 0;
  double ended_ = 0;
  double longest_ = 0;
};

std::vector<std::string> Split(const std::string& word) {
  std::vector<std::string> parts;
  std::istringstream stream(word);
  for (std::string part; std::getline(stream, part, ':');) parts.push_back(part);
  return parts;
}

// Sizes are spread evenly over the powers of two, the same on all ranks; first the ends.
void Loop(Sums& sums, std::uint64_t least, std::uint64_t most, const std::string& stop_file) {
  std::mt19937_64 random(1);
  const double octaves = std::log2(static_cast<double>(most) / static_cast<double>(least));
  for (std::uint64_t turn = 0;; ++turn) {
    const double octave = octaves * static_cast<double>(random() >> 11) / 9007199254740992.0;
    auto bytes = static_cast<std::uint64_t>(static_cast<double>(least) * std::exp2(octave));
    if (turn % 32 == 0) bytes = least;
    if (turn % 32 == 1) bytes = most;
    if (sums.Step(std::max(bytes / kWord * kWord, kWord), std::filesystem::exists(stop_file)))
      return;
    if (turn == 2) std::printf("looping\n");
  }
}

// To the next rank, until this rank sees the file; a test that uses it ends all ranks at once.
void Send(Connection& connection, Group& world, std::uint64_t bytes, const std::string& stop_file) {
  const std::uint64_t words = bytes / kWord;
  Buffer out(connection, bytes), in(connection, bytes);
  const std::uint32_t next = (world.rank() + 1) % world.size();
  const std::uint32_t before = (world.rank() + world.size() - 1) % world.size();
  for (std::uint64_t turn = 0; !std::filesystem::exists(stop_file); ++turn) {
    for (std::uint64_t i = 0; i < words; ++i) {
      out.as<std::uint64_t>()[i] = Word(turn, world.rank(), i);
    }
    Ticket sent = world.SendAsync(out.data(), words, MLXCOMM_UINT64, next, 1);
    Ticket received = world.ReceiveAsync(in.data(), words, MLXCOMM_UINT64, before, 1);
    sent.Wait();
    received.Wait();
    for (std::uint64_t i = 0; i < words; ++i) {
      if (in.as<std::uint64_t>()[i] == Word(turn, before, i)) continue;
      throw WrongValue("turn " + std::to_string(turn) + ": word " + std::to_string(i) +
                       " is wrong");
    }
    if (turn == 0) std::printf("looping\n");
  }
}

// Writes into two buffers for as long as it exists.
class Scribbler {
 public:
  Scribbler(volatile std::uint64_t* one, volatile std::uint64_t* other, std::uint64_t count)
      : thread_([=, this] {
          for (std::uint64_t value = 0; !ends_; ++value) {
            for (std::uint64_t at = 0; at < count; at += 512) {
              one[at] = value;
              other[at] = value;
            }
          }
        }) {}
  ~Scribbler() {
    ends_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> ends_ = false;
  std::thread thread_;
};

// Programs must not do this: only their own values may be lost.
void Scribble(Connection& connection, Group& world, std::uint64_t bytes, int times) {
  const std::uint64_t count = bytes / kWord;
  Buffer in(connection, bytes);
  Buffer out(connection, bytes);
  const Scribbler scribbler(in.as<std::uint64_t>(), out.as<std::uint64_t>(), count);
  for (int i = 0; i < times; ++i) {
    world.AllReduce(in.as<std::uint64_t>(), out.as<std::uint64_t>(), count, MLXCOMM_UINT64);
  }
}

constexpr std::uint64_t kWarmFloats[] = {2, 16 * 1024, 4 * 1024 * 1024};
constexpr int kWarmAtOnce = 8;
constexpr int kWarmRounds = 12;
constexpr int kWatchedRounds = 50;

// all_reduces one after another, and several in flight. The flag file arms the guard once they are
// warm.
void Warm(Connection& connection, Group& world, const std::string& flag_file, bool allocates) {
  const int flag = ::open(flag_file.c_str(), O_WRONLY | O_CLOEXEC);
  if (flag < 0) throw std::runtime_error("no file " + flag_file);
  Buffer in(connection, kWarmFloats[2] * sizeof(float));
  Buffer out(connection, kWarmFloats[2] * sizeof(float));
  std::vector<Ticket> tickets;
  tickets.reserve(kWarmAtOnce);
  for (int round = 0; round < kWarmRounds + kWatchedRounds; ++round) {
    if (round == kWarmRounds) (void)!::pwrite(flag, "1", 1, 0);
    for (const std::uint64_t count : kWarmFloats) {
      world.AllReduce(in.data(), out.data(), count, MLXCOMM_FLOAT32);
    }
    for (int i = 0; i < kWarmAtOnce; ++i) {
      tickets.push_back(
          world.AllReduceAsync(in.as<float>() + i, out.as<float>() + i, 1, MLXCOMM_FLOAT32));
    }
    for (Ticket& ticket : tickets) ticket.Wait();
    tickets.clear();
    if (allocates && round >= kWarmRounds) {
      void* volatile memory = std::malloc(100);  // Otherwise the compiler removes it.
      std::free(memory);
    }
  }
  (void)!::pwrite(flag, "0", 1, 0);
  ::close(flag);
}

// The guard watches threads that a program starts, not its main one.
void InThread(const std::function<void()>& work) {
  std::exception_ptr thrown;
  std::thread([&] {
    try {
      work();
    } catch (...) {
      thrown = std::current_exception();
    }
  }).join();
  if (thrown) std::rethrow_exception(thrown);
}

void Do(Connection& connection, Group& world, const std::vector<std::string>& words) {
  std::uint64_t most = kWord;
  for (const std::string& word : words) {
    const auto parts = Split(word);
    if (parts[0] == "sum") most = std::max<std::uint64_t>(most, std::stoull(parts.at(1)));
    if (parts[0] == "loop") most = std::max<std::uint64_t>(most, std::stoull(parts.at(2)));
  }
  Sums sums(connection, world, most);
  for (const std::string& word : words) {
    const auto parts = Split(word);
    if (parts[0] == "sum") {
      std::printf("begins %s\n", parts.at(1).c_str());
      sums.Step(std::stoull(parts.at(1)), false);
      std::printf("summed %s from %.6f to %.6f\n", parts.at(1).c_str(), sums.began(), sums.ended());
    } else if (parts[0] == "await") {
      while (!std::filesystem::exists(parts.at(1))) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      }
    } else if (parts[0] == "loop") {
      Loop(sums, std::stoull(parts.at(1)), std::stoull(parts.at(2)), parts.at(3));
    } else if (parts[0] == "send") {
      Send(connection, world, std::stoull(parts.at(1)), parts.at(2));
    } else if (parts[0] == "warm") {
      InThread([&] { Warm(connection, world, parts.at(1), parts.size() > 2); });
    } else if (parts[0] == "mixed") {
      DoMixedWork(connection, world, std::stoull(parts.at(1)), parts.at(2));
    } else if (parts[0] == "scribble") {
      Scribble(connection, world, std::stoull(parts.at(1)), std::stoi(parts.at(2)));
    } else if (!DoEveryCall(word, connection, world)) {
      throw std::runtime_error("no such word: " + word);
    }
  }
}

}  // namespace

double Now() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(since).count();
}

void PrintRaised(const Error& error, const Group* group) {
  std::printf("raised at %.6f %s rank %d", Now(), error.what(), error.rank());
  if (group != nullptr && error.rank() >= 0 &&
      static_cast<std::uint32_t>(error.rank()) < group->size()) {
    const Group::Member member = group->member(static_cast<std::uint32_t>(error.rank()));
    std::printf(" of %s on %s, pid %llu", group->name().c_str(), member.node.c_str(),
                static_cast<unsigned long long>(member.pid));
  }
  std::printf("\n");
}

}  // namespace mlxcomm::ground

int main(int argc, char** argv) {
  using namespace mlxcomm;  // NOLINT: a program.
  if (argc < 5) {
    std::fprintf(stderr, "usage: %s RANK SIZE JOB WORD...\n", argv[0]);
    return 2;
  }
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  try {
    mlxcomm_connect_options options;
    mlxcomm_connect_options_init(&options);
    Connection connection(options);
    std::vector<std::string> words(argv + 4, argv + argc);
    std::uint64_t join_timeout = 0;
    if (!words.empty() && words.front().starts_with("join:")) {
      join_timeout = std::stoull(words.front().substr(5)) * 1'000'000'000;
      words.erase(words.begin());
    }
    Group world(connection, argv[3], static_cast<std::uint32_t>(std::atoi(argv[1])),
                static_cast<std::uint32_t>(std::atoi(argv[2])), join_timeout);
    std::printf("joined\n");
    ground::Do(connection, world, words);
    std::printf("fine\n");
    return 0;
  } catch (const Error& error) {
    ground::PrintRaised(error, nullptr);
    return 3;
  } catch (const std::exception& error) {
    std::printf("wrong: %s\n", error.what());
    return 1;
  }
}
