// Controls the fake verbs (tests/fake_verbs), and reads the broken rules that they report.
//
// Owner: a test. Thread: its own. Memory: a folder that exists until the process ends.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>

#include "daemon/rdma/queue_pair.h"

namespace mlxcomm::rdma {

inline Gid Ipv4Gid(std::uint8_t last) {
  return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, last};
}

// Two devices, in a clean state for each test.
class FakeVerbsControl {
 public:
  FakeVerbsControl() {
    Want("");
    // Files of processes that an earlier test has killed.
    for (const auto& entry : std::filesystem::directory_iterator(Folder())) {
      if (IsQueuePair(entry)) std::filesystem::remove(entry.path());
    }
  }

  // Lines of the control file (tests/fake_verbs/control.h), besides the two devices.
  void Want(const std::string& lines) {
    lines_ = lines;
    broken_.clear();
    Write();
  }
  // Makes the queue pair of this number, in this process, fail.
  void BreakPair(std::uint32_t number) {
    broken_ += "break " + std::to_string(number) + "\n";
    Write();
  }
  // The file that represents the system's device file.
  static std::string EntryOf(const std::string& device) { return Folder() + "/entry_" + device; }
  std::string TakeFaults() {
    std::stringstream text;
    text << std::ifstream(Folder() + "/faults").rdbuf();
    // Keeps one that is about to be written.
    if (!text.str().empty()) std::filesystem::remove(Folder() + "/faults");
    return text.str();
  }
  // Returns whether a call has begun to hang.
  static bool HasHung(const std::string& call) {
    std::ifstream hung(Folder() + "/hung");
    for (std::string line; std::getline(hung, line);) {
      if (line == call) return true;
    }
    return false;
  }
  static void ForgetHung() { std::filesystem::remove(Folder() + "/hung"); }
  // Queue pairs that were not destroyed, in all processes.
  static int QueuePairs() {
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(Folder())) {
      count += IsQueuePair(entry) ? 1 : 0;
    }
    return count;
  }
  static const std::string& Folder() {
    static const OwnFolder folder;
    return folder.name();
  }

 private:
  class OwnFolder {
   public:
    OwnFolder() {
      EXPECT_NE(::mkdtemp(name_.data()), nullptr);
      ::setenv("FAKE_VERBS_DIR", name_.c_str(), 1);
    }
    ~OwnFolder() {
      std::error_code ignored;  // A driver's process may still write to it.
      std::filesystem::remove_all(name_, ignored);
    }
    OwnFolder(const OwnFolder&) = delete;
    const std::string& name() const { return name_; }

   private:
    std::string name_ = testing::TempDir() + "fake_verbs.XXXXXX";
  };
  static bool IsQueuePair(const std::filesystem::directory_entry& entry) {
    return entry.path().filename().string().starts_with("qp.");
  }
  void Write() {
    const std::string next = Folder() + "/next";
    std::ofstream(next) << "device rdma_en1 fe80::1,127.0.0.1\ndevice rdma_en2 fe80::2,127.0.0.2\n"
                        << lines_ << "\n"
                        << broken_;
    std::filesystem::rename(next, Folder() + "/control");
    std::this_thread::sleep_for(std::chrono::milliseconds(3));  // Until it is read again.
  }
  std::string lines_;
  std::string broken_;
};

}  // namespace mlxcomm::rdma
