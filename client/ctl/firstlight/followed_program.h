// A program that tells something line by line while somebody does something else, and that ends when
// it is asked no more.
//
// Owner: the step that wants it. Thread: main. Memory: what it has said and nobody has taken; a line
// that is longer than kLineBytesMax is cut.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <vector>

namespace mlxcomm::ctl {

class FollowedProgram {
 public:
  static constexpr std::size_t kLineBytesMax = 64 * 1024;

  explicit FollowedProgram(const std::vector<std::string>& words);
  ~FollowedProgram();  // Ends it.
  FollowedProgram(const FollowedProgram&) = delete;
  FollowedProgram& operator=(const FollowedProgram&) = delete;

  int descriptor() const { return output_; }  // Readable when TakeLines has something; -1: ended.
  // Those that are whole. Does not wait.
  std::vector<std::string> TakeLines();

 private:
  pid_t child_ = -1;
  int output_ = -1;
  std::string unread_;
};

}  // namespace mlxcomm::ctl
