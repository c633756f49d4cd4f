// The connection of a process after its hello, with the pair of sockets that stands between it and gRPC.
//
//   process ─▶ relay ─▶ grpc
//
// The pair is made before the hello is answered: a daemon that has no descriptor left refuses the hello
// with these words, and a process that was welcomed has its calls served.
//
// Owner: the intake, then control. Thread: any. Memory: three descriptors.
#pragma once

#include "proto/system/file_descriptor.h"

namespace mlxcomm::intake {

struct ControlConnection {
  FileDescriptor process;  // None until the hello is answered.
  FileDescriptor relay;    // What is sent on it comes out of `grpc`.
  FileDescriptor grpc;     // By its number the intake knows a session's calls (Intake::Find).

  // Makes the pair; none of it blocks. False: errno says why.
  bool MakePair();
  void SetProcess(FileDescriptor connection);
};

}  // namespace mlxcomm::intake
