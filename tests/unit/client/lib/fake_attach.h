// The calls of the stand-in for libmlxcomm_attach, and its answers: the test and the module share
// one of these.
//
//   FakeAttach& attach = FakeAttach::Of();  attach.Reset();
//   attach.split = [](const FakeAttach::SplitCall&, ...) { return MLXCOMM_...; };
//
// Owner: the module, static. Thread: any; functions are set before calls are made.
// Memory: small.
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "client/lib/attach_table.h"
#include "client/lib/mlxcomm.h"

namespace mlxcomm::client {

struct FakeAttach {
  struct Answer {
    int code = MLXCOMM_OK;
    int rank = -1;
    std::string message = {};
    std::uint64_t group = 0;
    std::uint32_t own_rank = 0;
    std::string name = {};
    std::uint32_t members = 0;
  };
  struct SplitCall {
    std::uint64_t parent = 0;
    std::uint64_t number = 0;
    std::vector<std::uint32_t> ranks;
    std::string name = {};
    std::uint64_t timeout_ns = 0;
  };
  struct CancelCall {
    std::uint64_t group = 0;
    std::uint64_t ticket = 0;
    bool operator==(const CancelCall&) const = default;
  };

  std::function<Answer()> attach;  // Without a function, the job's name decides.
  std::function<Answer(const SplitCall&)> split;
  std::function<Answer(std::uint64_t group, std::uint64_t timeout_ns)> shrink;
  std::function<void(const CancelCall&)> cancel;
  bool is_answering = true;                                // To awaited(),
  bool is_ended = false;                                   // and that it has ended.
  std::function<void(std::uint64_t patience_ns)> awaited;  // Called before that.

  // "release 9", "detach", in order.
  std::vector<std::string> Log() {
    const std::lock_guard lock(mutex);
    return log;
  }
  void Note(std::string line) {
    const std::lock_guard lock(mutex);
    log.push_back(std::move(line));
  }
  void Reset() {
    const std::lock_guard lock(mutex);
    attach = nullptr;
    split = nullptr;
    shrink = nullptr;
    cancel = nullptr;
    is_answering = true;
    is_ended = false;
    awaited = nullptr;
    log.clear();
  }

  // The module's. It is next to the test, where the library also finds it.
  static FakeAttach& Of(const std::string& folder) {
#if defined(__APPLE__)
    void* const module = ::dlopen((folder + "/libmlxcomm_attach.dylib").c_str(), RTLD_LAZY);
#else
    void* const module = ::dlopen((folder + "/libmlxcomm_attach.so").c_str(), RTLD_LAZY);
#endif
    using Get = FakeAttach* (*)();
    const auto get =
        module == nullptr ? nullptr : reinterpret_cast<Get>(::dlsym(module, "fake_attach"));
    if (get == nullptr) std::abort();
    return *get();
  }

  std::mutex mutex;
  std::vector<std::string> log;
};

}  // namespace mlxcomm::client
