module example.org/go_parameter_server

go 1.19

require gradstep.org/gradstep v0.0.0

replace gradstep.org/gradstep => ../../bindings/go
