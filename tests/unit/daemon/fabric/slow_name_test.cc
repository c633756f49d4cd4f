// A name server that does not answer, and addresses that must not wait for it. This program
// overrides getaddrinfo, which resolves one name only after the test is over.
#include <gtest/gtest.h>

#include <dlfcn.h>
#include <netdb.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "tests/unit/daemon/fabric/loopback.h"

namespace {

constexpr std::string_view kSilentName = "silent.invalid";

struct NameServer {
  std::mutex mutex;
  std::condition_variable changed;
  bool asked = false;
  bool answers = false;
};
NameServer name_server;

}  // namespace

extern "C" int getaddrinfo(const char* name, const char* service, const addrinfo* hints,
                           addrinfo** found) {
  if (name != nullptr && name == kSilentName) {
    std::unique_lock lock(name_server.mutex);
    name_server.asked = true;
    name_server.changed.wait(lock, [] { return name_server.answers; });
    return EAI_AGAIN;
  }
  using Function = int (*)(const char*, const char*, const addrinfo*, addrinfo**);
  static const auto real = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  return real(name, service, hints, found);
}

namespace mlxcomm::fabric::slow_name_test {
namespace {

class SlowNameTest : public FabricTest {
 protected:
  ~SlowNameTest() override {
    const std::lock_guard lock(name_server.mutex);
    name_server.answers = true;
    name_server.changed.notify_all();
  }
  static bool Asked() {
    const std::lock_guard lock(name_server.mutex);
    return name_server.asked;
  }
};

// Why: one thread resolves all names in turn. A cable with a numeric address must come back within
// the grace period, whatever happens to a name elsewhere.
TEST_F(SlowNameTest, AddressesAreDialedWhileANameIsBeingResolved) {
  Node a(io, "a", 1);
  Node b(io, "b", 2, {std::string(kSilentName) + ":7470", a.address()});
  EXPECT_TRUE(RunUntil({&a, &b}, [&] { return a.up.size() == 1 && b.up.size() == 1; }));
  EXPECT_TRUE(RunUntil({&a, &b}, [&] { return Asked(); }));
}

}  // namespace
}  // namespace mlxcomm::fabric::slow_name_test
