// What a test asks of the fake, and where the fake says what was done wrong.
//
// FAKE_VERBS_DIR names a folder that all processes of a test share. In it, and if there is one
// in the folder FAKE_VERBS_CONTROL, lies `control`: lines "name value", read again whenever it
// changes. What breaks a rule of Apple's is a line of `faults`, on the standard error as well.
//
//   device rdma_en1 127.0.0.1,fe80::1   a device and its port's GIDs; several lines, several devices
//   down rdma_en1                       its port is down
//   unreliable_only 0                   reliable queue pairs can be had, and messages be shorter
//   ipv4_gids_only 1                    a queue pair can be made ready from and to IPv4's GIDs alone
//   no_ipv4 rdma_en1                    its IPv4 GIDs are not there yet
//   one_frame_only 1                    of messages of more than one frame only the first arrives
//                                       right, as before macOS 26.3
//   grant 64                            what a queue is deep at most, in frames
//   regions 5                           others have the rest: no more than so many are given
//   loss 0.01 / delay_us 200            of messages, on all queue pairs
//   hang ibv_open_device                calls of it do not come back while the line is there; it
//                                       is a line of the file `hung` for each
//   print ibv_open_device               a call of it prints something to the standard output
//   crash ibv_open_device               a call of it ends the process (SIGSEGV); it is a line of the
//                                       file `crashed` for each
//   lie ibv_post_send                   a call of it says that it has done so, and has not; one that
//                                       tells something tells nonsense, ibv_poll_cq what completed
//                                       last once more
//   refuse_shared 1                     memory that processes share is not registered
//   fail ibv_reg_mr                     a call of it fails
//   lose_unmatched 1                    a send that meets no receive is lost, and no fault
//   break rdma_en1                      queue pairs there fail: all completions are errors; or
//                                       the number of one
//   taken rdma_en1                      it is listed no more; its file, entry_rdma_en1 in the folder
//                                       if the test has made one, goes before
//   mute rdma_en1                       nothing arrives from there any more, and nobody is told
//
// Owner: the library, once a process. Thread: any. Memory: what the file says.
#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace fake_verbs {

struct Settings {
  std::vector<std::pair<std::string, std::vector<std::string>>> devices;
  std::multimap<std::string, std::string> lines;

  bool Has(const std::string& name, const std::string& value) const;
  double Number(const std::string& name, double otherwise) const;
};

class Control {
 public:
  static Control& Get();

  const std::string& folder() const { return folder_; }
  Settings Now();
  // Waits, ends, or says that it has to fail, as the control file wants.
  [[nodiscard]] bool MayCall(const char* function);
  [[nodiscard]] bool Lies(const char* function) { return Now().Has("lie", function); }
  // Something that the hardware does not do, or does not take.
  void Fault(const std::string& what);

 private:
  Control();
  void Append(const char* name, const std::string& line) const;
  std::string folder_;
  std::string file_;
  std::mutex mutex_;
  Settings settings_;
  std::chrono::steady_clock::time_point read_at_{};
};

}  // namespace fake_verbs
