module gradstep.org/gradstep

go 1.19
