// What a test tells the fake driver (fake_cuda.cpp), besides the variable FAKE_CUDA_LACKS. The library is
// found at run time, as the real one is: the functions are looked up in it.
#pragma once

extern "C" {

void fake_cuda_hold_pins(int hold);     // not 0: page-locking waits until it is 0
int fake_cuda_pins_waiting();           // calls that wait now
void fake_cuda_fail_copy(int number);   // the so-manieth copy from now on fails, once; 0: none
void fake_cuda_fail_queries(int fail);  // not 0: cuEventQuery answers an error, as while a stream is captured
void fake_cuda_this_is_the_programs_thread();  // calls of the others are counted, where they break a capture
int fake_cuda_calls_that_break_captures();

struct FakeCudaCalls {  // since the library was loaded
  int create = 0, release = 0, map = 0, unmap = 0, set_access = 0;
};
FakeCudaCalls fake_cuda_calls();
}
