// What ranks print, as lines behind their rank: "[3] loss 0.1". A line comes whole, also where
// ranks print at once; the states of progress bars (carriage returns) are lines too. What
// launch says itself stands between them, in its place. Where a person looks on, what the first rank
// has printed without ending its line (the prompt of a program that reads) is shown after a moment of
// quiet; what others print then begins a line of its own.
//
// Nothing here waits for a reader, for whoever waits ends no ranks: what is not taken yet is kept,
// and is_full() says when ranks should be left to wait.
//
// Owner: launch. Thread: main. Memory: of each rank and stream a line, at most kLineBytesMax;
// kWaitingBytesMax, and what comes after that was said.
#pragma once

#include <poll.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace mlxcomm::ctl {

class RankLines {
 public:
  // A line that is longer is shown in pieces.
  static constexpr std::size_t kLineBytesMax = 64 * 1024;
  static constexpr std::size_t kWaitingBytesMax = std::size_t{1} << 20;

  explicit RankLines(bool prefix) : prefix_(prefix) {}

  void Print(unsigned rank, int stream, std::string_view bytes);
  // What is left of a line.
  void End(unsigned rank, int stream);
  void EndAll();
  // Shows what rank `rank` has printed of a line, if nothing has come for a moment.
  void ShowPrompt(unsigned rank, std::chrono::steady_clock::time_point now);
  // A person has typed a line: the terminal has gone on to the next.
  void PromptAnswered() { prompt_ = nullptr; }
  // A line of launch's own, on standard error.
  void Say(std::string_view line);

  bool is_full() const { return waiting_bytes_ > kWaitingBytesMax; }
  bool is_waiting() const { return waiting_bytes_ > 0; }
  void AddTo(std::vector<pollfd>& waited) const;
  // As much as is taken now. False, once: nobody reads any more. A full disk ends no job, and
  // is said once.
  bool Write();

 private:
  struct Stream {
    std::string partial;
    bool returned = false;        // The last byte was a carriage return.
    std::size_t shown_bytes = 0;  // Of `partial`, as a prompt.
    std::chrono::steady_clock::time_point came_at;
  };
  struct Piece {
    int to = -1;
    std::string bytes;
  };

  void PrintLine(unsigned rank, int stream, Stream& state);
  void EndPrompt();
  void Add(int stream, std::string_view bytes);
  void Took(std::size_t bytes);

  const bool prefix_;
  bool closed_ = false;
  bool said_lost_ = false;
  std::map<unsigned, std::array<Stream, 2>> ranks_;
  static constexpr std::chrono::milliseconds kQuiet{200};
  const Stream* prompt_ = nullptr;  // Whose line has begun on standard output, and was not ended.
  std::deque<Piece> waiting_;       // In order, whichever stream it is for.
  std::size_t taken_ = 0;           // Of the first.
  std::size_t waiting_bytes_ = 0;
};

}  // namespace mlxcomm::ctl
